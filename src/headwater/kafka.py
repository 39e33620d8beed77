"""Topics of Kafka as a source of records: the state decides what was read, not the broker.

The position is the next offset of every partition. It is kept in the same transaction as the records, so a killed
consumer neither loses nor repeats. Partitions are assigned, not subscribed to: there is one consumer, the owner of the
state, so there are no rebalances.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Self

from headwater.public.errors import TableError
from headwater.run import Run
from headwater.run.feed import MEASURE_EVERY
from headwater.secret.batch import Batch, in_order
from headwater.secret.read.batch import Batch as Lines
from headwater.secret.read.source import read_bytes

POSITION = "kafka"
_BATCH = 10_000  # messages that are taken at a time, at most
_NO_ID = "A" * 22  # zero, as brokers of before Kafka 2.8 say it
_MARK = b"\xef\xbb\xbf"


class TopicError(OSError):
    """A topic that cannot be read on: records that were not read yet are gone, or it is another topic."""


@dataclass(frozen=True)
class TopicBatch:
    values: list[bytes]
    places: list[tuple[int, int]]
    position: dict[str, Any]
    before: Mapping[str, Any] | None = None

    def read(self, schema: Any, form: str, bad_rows: str = "stop", *, ignore_extra: bool = False) -> Iterator[Lines]:  # noqa: ANN401 - a Schema or a UnitCube
        """The records in batches; an error names partition and offset of the message, never its value."""
        lines = [self._line(number, form, bad_rows) for number in range(len(self.values))]
        if form == "csv":
            names = list(getattr(schema, "inputs", ())) or [f"x{axis}" for axis in range(schema.dimension)]
            lines.insert(0, ",".join('"' + name.replace('"', '""') + '"' for name in names).encode())
        before, form_of_lines = 0, "csv" if form == "csv" else "jsonl"
        text = _MARK + b"\n".join([*lines, b""])  # a mark: so what the first message begins with is part of it
        try:
            for batch in read_bytes(text, schema, form_of_lines, bad_rows, ignore_extra=ignore_extra, multiline=False):
                yield _Messages(batch, self.places[before : before + batch.records])
                before += batch.records
        except TableError as error:
            raise self.locate(error, form) from None
        if before != len(self.values):
            raise TableError(f"{len(self.values):,} messages hold {before:,} records", "write one record a message")

    def _line(self, number: int, form: str, bad_rows: str) -> bytes:
        value = self.values[number].strip(b"\r\n")
        if form == "json":
            return value.replace(b"\n", b" ").replace(b"\r", b" ")  # between tokens: in a string JSON writes \n
        if b"\n" not in value and b"\r" not in value:
            return value
        if bad_rows == "stop":
            raise self.locate(TableError("a message of several lines", "write one line a message", row=number))
        return b"\r" + value.replace(b"\n", b"\r")  # one line, which is bad: a return stands before its end

    def locate(self, error: TableError, form: str = "json") -> TableError:
        """An error of a reader with the place of its message."""
        number = error.row if error.line is None else error.line - (2 if form == "csv" else 1)
        return error if number is None or not 0 <= number < len(self.places) else _at(error, self.places[number])


class _Messages(Lines):
    def __init__(self, lines: Lines, places: list[tuple[int, int]]) -> None:
        self._messages = places
        super().__init__(**vars(lines))

    def located(self, error: TableError, record: int) -> TableError:
        return _at(error, self._messages[record])


def _at(error: TableError, place: tuple[int, int]) -> TableError:
    located = error.at(file="partition {}, offset {}".format(*place))
    located.line = located.row = None
    return located


# ---- a run


def encode(run: Run, batch: TopicBatch, form: str, bad_rows: str = "stop", *, ignore_extra: bool = False) -> Batch:
    parts = batch.read(run.synth.input_schema, form, bad_rows, ignore_extra=ignore_extra)
    return in_order([run.encode(part, bad_rows=bad_rows) for part in parts])


def take(run: Run, batch: TopicBatch, form: str, bad_rows: str = "stop", *, ignore_extra: bool = False) -> None:
    """Take a batch, all of it or nothing, with the offsets behind it.

    A topic goes on behind what it has given, kept or not. So after a batch that was refused the next one is refused
    too: open the topic again, where the run stands.
    """
    if run.position(POSITION) != batch.before:
        raise TopicError(
            "the run has not kept what the topic gave before these messages, as after an error: open the topic again "
            "from the position that the run has kept, run.position(POSITION)"
        )
    found = encode(run, batch, form, bad_rows, ignore_extra=ignore_extra)
    run.take(found, position={POSITION: batch.position})


def feed(
    run: Run,
    topic: Topic,
    form: str,
    *,
    progress: Callable[[], None] = lambda: None,
    stop: Callable[[], bool] = lambda: False,
    **reading: Any,  # noqa: ANN401 - bad_rows and ignore_extra, as `take` has them
) -> None:
    """Take everything that a topic gives, and publish whenever it is due, until ``stop`` says so."""
    run.publish_if_due(time.monotonic())
    measured = time.monotonic()
    for batch in topic:
        if batch is not None:
            take(run, batch, form, **reading)
        progress()
        run.publish_if_due(time.monotonic())
        if time.monotonic() - measured >= MEASURE_EVERY:
            run.measure()
            measured = time.monotonic()
        progress()
        if stop():
            return


# ---- a topic


class Offsets:
    """The next offset of each partition of a topic, and which topic that is, as far as its brokers say it."""

    def __init__(self, topic: str, position: Mapping[str, Any] | None, compacted: Callable[[], bool]) -> None:
        if position is not None and position.get("topic") != topic:
            raise TopicError(f"this run has read another topic, {position.get('topic')!r}; give that one again")
        kept = position or {"offsets": {}}
        self._topic, self._compacted = topic, compacted
        self.next = {int(partition): int(offset) for partition, offset in kept["offsets"].items()}
        self.ids = {name: kept[name] for name in ("cluster", "topic_id") if name in kept}
        self._starting = set[int]()  # partitions whose first offset is wherever the topic begins

    @property
    def position(self) -> dict[str, Any]:
        return {"topic": self._topic, "offsets": {str(part): self.next[part] for part in sorted(self.next)}, **self.ids}

    def check_id(self, name: str, found: str) -> None:
        """Refuse another ``cluster`` or ``topic_id``: its offsets are of other messages. The first one is kept."""
        if self.ids.setdefault(name, found) != found:
            what = "is of another cluster" if name == "cluster" else "was made anew"
            raise TopicError(
                f"the topic {self._topic!r} {what}: its offsets are of other messages than those that were read. Give "
                "the topic that was read before, or start a new run"
            )

    def begin(self, partition: int, offset: int) -> None:
        self.next[partition] = offset
        self._starting.add(partition)

    def check_partitions(self, found: Iterable[int]) -> None:
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


class Topic:
    """A topic as an iterator of batches that never ends; None after a poll that found nothing."""

    def __init__(
        self,
        servers: str,
        name: str,
        position: Mapping[str, Any] | None = None,
        *,
        poll_seconds: float = 1.0,
        look_seconds: float = 30.0,
        timeout: float = 10.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise ImportError("confluent_kafka is not installed: pip install 'headwater[kafka]'") from None
        self._kafka = confluent_kafka
        self.name, self._poll, self._look_seconds, self._timeout = name, poll_seconds, look_seconds, timeout
        self._before = position
        self._torn = False  # whether messages were read and not given, because of an error
        self._offsets = Offsets(name, position, self._is_compacted)
        self._looked = self._asked = -math.inf
        self._compacted: bool | None = None  # what the broker said last; None if it did not say
        self._brokers = {**(options or {}), "bootstrap.servers": servers}
        self._asked_id: Future[Any] | None = None
        self._admin: Any = None  # whom that was asked of
        self.trouble = ""  # brokers that are away come back: the library connects again by itself
        needed = {
            "group.id": "headwater",  # asked for by the library; no group is joined and nothing is committed
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",  # an offset that is gone is never skipped silently
            "enable.partition.eof": False,
            "isolation.level": "read_committed",
            "error_cb": lambda error: setattr(self, "trouble", str(error)),
        }
        self._consumer = confluent_kafka.Consumer({**self._brokers, **needed})

    def __iter__(self) -> Iterator[TopicBatch | None]:
        while True:
            yield self.next()

    def next(self) -> TopicBatch | None:
        """The next messages, at most a batch of them; None if there were none for a while."""
        if time.monotonic() - self._looked >= self._look_seconds or not self._offsets.next:
            self._look()
        if self._asked_id is not None and self._asked_id.done():
            self._check_id()
        if self._torn:
            raise TopicError(
                "an error came while messages were read, and they are given to nobody: open the topic again from the "
                "position that the run has kept, run.position(POSITION)"
            )
        self._torn = True
        values, places = list[bytes](), list[tuple[int, int]]()
        for message in self._consumer.consume(_BATCH, timeout=self._poll):
            if message.error():
                self._refuse(message)
                continue
            partition, offset = int(message.partition() or 0), int(message.offset() or 0)
            self._offsets.advance(partition, offset)
            values.append(message.value() or b"")
            places.append((partition, offset))
        self._torn = False
        if not values:
            return None
        self.trouble = ""
        before, self._before = self._before, self._offsets.position
        return TopicBatch(values, places, self._before, before)

    def _is_compacted(self) -> bool:
        """Whether messages can vanish from the middle of the topic; so if the broker does not say."""
        if time.monotonic() - self._asked >= self._look_seconds:
            self._compacted, self._asked = self.ask_compacted(), time.monotonic()
        return self._compacted is not False

    def ask_compacted(self) -> bool | None:
        """Whether the broker says that the topic is compacted; None if it does not say."""
        from confluent_kafka import admin

        about = admin.ConfigResource(admin.ResourceType.TOPIC, self.name)  # type: ignore[attr-defined]
        asked = admin.AdminClient(self._brokers).describe_configs([about], request_timeout=self._timeout)
        try:
            (answer,) = asked.values()
            return "compact" in str(answer.result()["cleanup.policy"].value)
        except (self._kafka.KafkaException, KeyError):
            return None

    def ask_id(self) -> Future[Any]:
        """What will have the ``topic_id`` that the brokers gave this topic when it was made."""
        from confluent_kafka import admin

        self._admin, topics = admin.AdminClient(self._brokers), self._kafka.TopicCollection([self.name])
        found: Future[Any] = self._admin.describe_topics(topics, request_timeout=self._timeout)[self.name]
        return found

    def _check_id(self) -> bool:
        """Refuse a topic that was made anew; whether the brokers say which one it is."""
        asked, self._asked_id = self._asked_id, None
        try:
            found = _NO_ID if asked is None else str(asked.result().topic_id)
        except self._kafka.KafkaException:
            return False
        finally:
            self._admin = None  # a client that is left open tells of brokers that went away
        if found != _NO_ID:
            self._offsets.check_id("topic_id", found)
        return found != _NO_ID

    def _refuse(self, message: Any) -> None:  # noqa: ANN401 - a message of the library
        error, partition, codes = message.error(), message.partition(), self._kafka.KafkaError
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            raise TopicError(
                f"partition {partition} of {self.name!r} has no offset {self._offsets.next.get(partition)} any more: "
                "messages that were not read yet have expired, or the topic was made anew; nothing was counted of what "
                "is gone. Give the topic a longer retention, and start a new run"
            )
        if error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_PARTITION, codes._UNKNOWN_TOPIC):
            raise TopicError(f"partition {partition} of {self.name!r} is gone: the topic was removed or made anew")
        if error.fatal():
            raise TopicError(f"the broker refused for good: {error.name()}")
        self.trouble = error.name()

    def partitions(self) -> list[int] | None:
        try:
            about = self._consumer.list_topics(self.name, timeout=self._timeout)
        except self._kafka.KafkaException as error:
            self._say(error)
            return None
        if about.cluster_id:
            self._offsets.check_id("cluster", about.cluster_id)
        found = about.topics[self.name]
        if found.error is not None:
            if found.error.code() != self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART or self._offsets.next:
                raise TopicError(f"the topic {self.name!r} cannot be read: {found.error.name()}")
            return None  # not there yet
        return sorted(found.partitions)

    def _say(self, error: Exception) -> None:
        self.trouble = error.args[0].name() if error.args and hasattr(error.args[0], "name") else type(error).__name__
        if not self._offsets.next:
            time.sleep(self._poll)

    def _look(self) -> None:
        found = self.partitions()
        if found is None:
            return
        self._asked_id = self.ask_id()
        if "topic_id" in self._offsets.ids and not self._check_id():  # whoever never said it is not waited for
            self.trouble = "the brokers do not say which topic this is"
            return
        self._offsets.check_partitions(found)
        new = [partition for partition in found if partition not in self._offsets.next]
        first = [self._kafka.TopicPartition(self.name, partition, self._kafka.OFFSET_BEGINNING) for partition in new]
        try:  # not by `get_watermark_offsets`, which gives the end as the beginning where it has asked a second time
            found_first = self._consumer.offsets_for_times(first, timeout=self._timeout) if new else []
            for place in found_first:
                if place.error is not None or place.offset < 0:
                    raise self._kafka.KafkaException(place.error or self._kafka.KafkaError._NO_OFFSET)
        except self._kafka.KafkaException as error:  # its leader has just changed, for instance
            self._say(error)
            return
        self._looked = time.monotonic()
        for place in found_first:
            self._offsets.begin(place.partition, place.offset)
        if new or not self._consumer.assignment():
            self._consumer.assign([self._kafka.TopicPartition(self.name, *at) for at in self._offsets.next.items()])

    def close(self) -> None:
        self._asked_id = self._admin = None
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
