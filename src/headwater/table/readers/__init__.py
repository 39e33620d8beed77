"""Files of records: read in batches, in order, and from where an earlier run stopped."""

from headwater.table.readers.batch import Batch
from headwater.table.readers.options import InputChangedError, Options
from headwater.table.readers.source import Source, open_source, read, read_points
from headwater.table.readers.types import names_and_types

__all__ = ["Batch", "InputChangedError", "Options", "Source", "names_and_types", "open_source", "read", "read_points"]
