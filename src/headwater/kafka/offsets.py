"""Which message of a topic comes next, and which may not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any


class TopicError(OSError):
    """A topic that cannot be read on: records that were not read yet are gone, or it is another topic."""


class Offsets:
    """The next offset of each partition of a topic, and which topic that is, as far as its brokers say it.

    Parameters
    ----------
    position
        What `position` gave before; None at the very beginning.
    compacted
        Says whether messages can vanish from the middle of the topic; asked only where offsets have a gap.
    """

    def __init__(self, topic: str, position: Mapping[str, Any] | None, compacted: Callable[[], bool]) -> None:
        if position is not None and position.get("topic") != topic:
            raise TopicError(f"this run has read another topic, {position.get('topic')!r}; give that one again")
        kept = {"offsets": {}} if position is None else position
        self._topic, self._compacted = topic, compacted
        self.next = {int(partition): int(offset) for partition, offset in kept["offsets"].items()}
        self.ids = {name: kept[name] for name in ("cluster", "topic_id") if name in kept}
        self._starting = set[int]()  # partitions whose first offset is wherever the topic begins

    @property
    def position(self) -> dict[str, Any]:
        """The next offset of every partition, as a run keeps it."""
        offsets = {str(part): offset for part, offset in sorted(self.next.items())}
        return {"topic": self._topic, "offsets": offsets, **self.ids}

    def check_id(self, name: str, found: str) -> None:
        """Refuse another topic of the same name, whose offsets are of other messages.

        ``name`` says what was found: the ``"cluster"``, or the ``"topic_id"``. What no run has kept yet is kept from
        now on.
        """
        if self.ids.setdefault(name, found) != found:
            what = "is of another cluster" if name == "cluster" else "was made anew"
            raise TopicError(
                f"the topic {self._topic!r} {what}: its offsets are of other messages than those that were read. Give "
                "the topic that was read before, or start a new run"
            )

    def begin(self, partition: int, offset: int) -> None:
        """Expect the messages of a new partition, from its oldest one on."""
        self.next[partition] = offset
        self._starting.add(partition)

    def check_partitions(self, found: Iterable[int]) -> None:
        """Refuse a topic that has lost a partition."""
        if gone := sorted(set(self.next) - set(found)):
            raise TopicError(f"partition {gone[0]} of {self._topic!r} is gone: the topic was made anew")

    def advance(self, partition: int, offset: int) -> None:
        """Expect the next offset. Transactions leave gaps, and so does compaction, which loses records."""
        expected = self.next[partition]
        if offset < expected or (offset > expected and partition not in self._starting and self._compacted()):
            raise TopicError(
                f"partition {partition} of {self._topic!r} goes on with offset {offset}, and {expected} was to come: "
                "messages are missing, as in a compacted topic; use one that keeps every message (cleanup.policy = "
                "delete), and let this client ask for it (DescribeConfigs) if the topic is written in transactions"
            )
        self._starting.discard(partition)
        self.next[partition] = offset + 1
