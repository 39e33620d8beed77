"""Headwater on Spark: executors encode and count, one owner on the driver adds the counts and the noise.

The numbers are those of one process that takes the same records in the same order, bit for bit.
"""

from headwater.spark.sink import TableSink
from headwater.spark.stream import Query, session, stream, update

__all__ = ["Query", "TableSink", "session", "stream", "update"]
