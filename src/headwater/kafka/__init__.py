"""Topics of Kafka as a source of records: the state decides what was read, not the broker.

The position is the next offset of every partition. It is kept in the same transaction as the records, so a killed
consumer neither loses nor repeats. Partitions are assigned, not subscribed to: there is one consumer, the owner of the
state, so there are no rebalances.
"""

from headwater.kafka.batch import TopicBatch
from headwater.kafka.feed import POSITION, encode, feed, take
from headwater.kafka.offsets import Offsets, TopicError
from headwater.kafka.topic import Topic

__all__ = ["POSITION", "Offsets", "Topic", "TopicBatch", "TopicError", "encode", "feed", "take"]
