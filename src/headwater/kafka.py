"""Topics of Kafka as a source of records: the state decides what was read, not the broker.

The position is the next offset of every partition. It is kept in the same transaction as the records, so a killed
consumer neither loses nor repeats. Partitions are assigned, not subscribed to: there is one consumer, the owner of the
state, so there are no rebalances.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from headwater.run import Run
from headwater.run.requests import answer_requests
from headwater.table.bad_rows import BadRow
from headwater.table.errors import TableError
from headwater.table.readers import Batch
from headwater.table.readers.memory import read_bytes
from headwater.table.tally import Tally

POSITION = "kafka"
"""The name under which a run keeps the offsets of its topic."""

_LOOK = 30.0  # seconds between looks for new partitions
_TIMEOUT = 10.0  # seconds that a broker may take to answer

Offsets = dict[int, int]


class TopicError(OSError):
    """A topic that cannot be read on: records that were not read yet are gone, or it is another topic."""


@dataclass(frozen=True)
class TopicBatch:
    """Some records of a topic, and the offsets behind them.

    Parameters
    ----------
    values
        The values of the messages, in the order in which they arrived.
    places
        Partition and offset of each message.
    position
        What a run keeps with the records.
    """

    values: list[bytes]
    places: list[tuple[int, int]]
    position: dict[str, Any]

    def read(
        self,
        schema: Any,  # noqa: ANN401
        form: str,
        bad_rows: str = "stop",
        *,
        ignore_extra: bool = False,
    ) -> Iterator[Batch]:
        """The records in batches; an error names partition and offset of the message, never its value.

        Parameters
        ----------
        schema
            What a record is.
        form
            ``"json"``, or ``"csv"``: one line without a header, columns in the order of the schema, the person last.
        bad_rows
            What happens to messages that are no records: a policy of `headwater.table.bad_rows`.
        ignore_extra
            Whether fields that the schema does not name are left out.
        """
        lines = [self._line(number, form) for number in range(len(self.values))]
        if form == "csv":
            lines.insert(0, _header(schema))
        before, form_of_lines = 0, "csv" if form == "csv" else "jsonl"
        text = b"\n".join([*lines, b""])
        try:
            for batch in read_bytes(text, schema, form_of_lines, bad_rows, ignore_extra=ignore_extra):
                yield batch
                before += batch.records
        except TableError as error:
            raise self.locate(error, before, form) from None
        if before != len(self.values):
            raise TableError(f"{len(self.values):,} messages hold {before:,} records", "write one record a message")

    def _line(self, number: int, form: str) -> bytes:
        value = self.values[number].strip(b"\r\n")
        if form == "json":
            return value.replace(b"\n", b" ").replace(b"\r", b" ")  # between tokens: in a string JSON writes \n
        if b"\n" in value or b"\r" in value:
            raise self._at(number, TableError("a message of several lines", "write one line a message"))
        return value

    def locate(self, error: TableError, before: int = 0, form: str = "json") -> TableError:
        """An error with the place of its message.

        Parameters
        ----------
        error
            Of a reader or of `schema.encode`.
        before
            How many records came before the table that the error is about.
        form
            The format of the values.
        """
        row = error.row if error.row is not None else None
        if row is None and error.line is not None:
            row, before = error.line - (2 if form == "csv" else 1), 0
        return error if row is None or not 0 <= before + row < len(self.places) else self._at(before + row, error)

    def _at(self, number: int, error: TableError) -> TableError:
        partition, offset = self.places[number]
        located = error.at()
        located.file, located.line, located.row = f"partition {partition}, offset {offset}", None, None
        return located


class Topic:
    """A topic as an iterator of batches that never ends; None after a poll that found nothing.

    Parameters
    ----------
    servers
        ``host:port`` of the brokers, separated by commas.
    name
        Of the topic.
    position
        What a run has kept under `POSITION`; None to start with the oldest messages that there are.
    batch
        How many messages are taken at a time, at most.
    poll_seconds
        How long to stay idle before that is said.
    options
        Further settings of librdkafka, such as those for TLS.
    """

    def __init__(
        self,
        servers: str,
        name: str,
        position: Mapping[str, Any] | None = None,
        *,
        batch: int = 10_000,
        poll_seconds: float = 1.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise ImportError("confluent_kafka is not installed: pip install 'headwater[kafka]'") from None
        self._kafka = confluent_kafka
        self.name, self._batch, self._poll = name, batch, poll_seconds
        self._fresh = position is None
        self._next: Offsets = self._checked(position)
        self._starting: set[int] = set()  # partitions whose first offset is wherever the topic begins
        self._looked = self._asked = -_LOOK
        self._compacted: bool | None = None  # what the broker said last; None if it did not say
        self._brokers = {**(options or {}), "bootstrap.servers": servers}
        needed = {
            "group.id": "headwater",  # asked for by the library; no group is joined and nothing is committed
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",  # an offset that is gone is never skipped silently
            "enable.partition.eof": False,
            "isolation.level": "read_committed",
        }
        self.trouble = ""
        self._consumer = confluent_kafka.Consumer({**self._brokers, **needed, "error_cb": self._trouble})

    def _checked(self, position: Mapping[str, Any] | None) -> Offsets:
        if position is None:
            return {}
        if position.get("topic") != self.name:
            raise TopicError(f"this run has read another topic, {position.get('topic')!r}; give that one again")
        return {int(partition): int(offset) for partition, offset in position["offsets"].items()}

    def _trouble(self, error: object) -> None:
        """Brokers that are away come back: the library connects again by itself."""
        self.trouble = str(error)

    def __iter__(self) -> Iterator[TopicBatch | None]:
        while True:
            yield self.next()

    def next(self) -> TopicBatch | None:
        """The next messages, at most a batch of them; None if there were none for a while."""
        if time.monotonic() - self._looked >= _LOOK or not self._next:
            self._look()
        messages = self._consumer.consume(self._batch, timeout=self._poll)
        values, places = list[bytes](), list[tuple[int, int]]()
        for message in messages:
            if message.error():
                self._refuse(message)
                continue
            partition, offset = int(message.partition() or 0), int(message.offset() or 0)
            self._advance(partition, offset)
            values.append(message.value() or b"")
            places.append((partition, offset))
        if not values:
            return None
        self.trouble = ""
        return TopicBatch(values, places, self.position)

    @property
    def position(self) -> dict[str, Any]:
        """The next offset of every partition, as a run keeps it."""
        return {"topic": self.name, "offsets": {str(part): offset for part, offset in sorted(self._next.items())}}

    def _advance(self, partition: int, offset: int) -> None:
        """Expect the next offset. Transactions leave gaps, and so does compaction, which loses records."""
        expected = self._next[partition]
        if offset < expected or (offset > expected and partition not in self._starting and self._is_compacted()):
            raise TopicError(
                f"partition {partition} of {self.name!r} goes on with offset {offset}, and {expected} was to come: "
                "messages are missing, as in a compacted topic; use one that keeps every message (cleanup.policy = "
                "delete), and let this client ask for it (DescribeConfigs) if the topic is written in transactions"
            )
        self._starting.discard(partition)
        self._next[partition] = offset + 1

    def _is_compacted(self) -> bool:
        """Whether messages can vanish from the middle of the topic; so if the broker does not say."""
        if time.monotonic() - self._asked >= _LOOK:
            self._compacted = self._ask_compacted()
            self._asked = time.monotonic()
        return self._compacted is not False

    def _ask_compacted(self) -> bool | None:
        from confluent_kafka import admin

        about = admin.ConfigResource(admin.ResourceType.TOPIC, self.name)  # type: ignore[attr-defined]
        asked = admin.AdminClient(self._brokers).describe_configs([about], request_timeout=_TIMEOUT)
        try:
            (answer,) = asked.values()
            return "compact" in str(answer.result()["cleanup.policy"].value)
        except (self._kafka.KafkaException, KeyError):
            return None

    def _refuse(self, message: Any) -> None:  # noqa: ANN401 - a message of the library
        error, partition = message.error(), message.partition()
        codes = self._kafka.KafkaError
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            raise TopicError(
                f"partition {partition} of {self.name!r} has no offset {self._next.get(partition)} any more: messages "
                "that were not read yet have expired, or the topic was made anew; nothing was counted of what is gone. "
                "Give the topic a longer retention, and start a new run"
            )
        if error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_PARTITION, codes._UNKNOWN_TOPIC):
            raise TopicError(f"partition {partition} of {self.name!r} is gone: the topic was removed or made anew")
        if error.fatal():
            raise TopicError(f"the broker refused for good: {error.name()}")
        self.trouble = error.name()

    def _look(self) -> None:
        """Find new partitions, and read them from their beginning."""
        try:
            found = self._consumer.list_topics(self.name, timeout=_TIMEOUT).topics[self.name]
        except self._kafka.KafkaException as error:
            self.trouble = str(error.args[0].name() if error.args else "")
            if self._fresh and not self._next:
                time.sleep(self._poll)
            return
        if found.error is not None:
            if found.error.code() != self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART or self._next:
                raise TopicError(f"the topic {self.name!r} cannot be read: {found.error.name()}")
            return  # not there yet
        self._looked = time.monotonic()
        if gone := sorted(set(self._next) - set(found.partitions)):
            raise TopicError(f"partition {gone[0]} of {self.name!r} is gone: the topic was made anew")
        new = sorted(set(found.partitions) - set(self._next))
        for partition in new:
            place = self._kafka.TopicPartition(self.name, partition)
            low, _ = self._consumer.get_watermark_offsets(place, timeout=_TIMEOUT)
            self._next[partition] = low
            self._starting.add(partition)
        if new or not self._consumer.assignment():
            places = [self._kafka.TopicPartition(self.name, part, offset) for part, offset in self._next.items()]
            self._consumer.assign(places)
        self._fresh = False

    def close(self) -> None:
        """End the connection."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _header(schema: Any) -> bytes:  # noqa: ANN401 - a Schema or a UnitCube
    names = getattr(schema, "names", None) or [f"x{axis}" for axis in range(schema.dimension)]
    quoted = ('"' + name.replace('"', '""') + '"' for name in names)
    return ",".join(quoted).encode()


def take(run: Run, batch: TopicBatch, form: str, bad_rows: str = "stop", *, ignore_extra: bool = False) -> None:
    """Take a batch, all of it or nothing, with the offsets behind it.

    Parameters
    ----------
    run
        The run.
    batch
        The records.
    form
        The format of the values.
    bad_rows
        What happens to messages that are no records.
    ignore_extra
        Whether fields that the schema does not name are left out.
    """
    rows, tally, bad = encode(run, batch, form, bad_rows, ignore_extra=ignore_extra)
    run.take_rows(rows, tally, position={POSITION: batch.position}, quarantined=bad)


def encode(
    run: Run, batch: TopicBatch, form: str, bad_rows: str = "stop", *, ignore_extra: bool = False
) -> tuple[Any, Tally, list[BadRow]]:  # an array first
    """The records of a batch as the run keeps them, what was bad or clipped in them, and bad rows for quarantine.

    Parameters
    ----------
    run
        The run.
    batch
        The records.
    form
        The format of the values.
    bad_rows
        What happens to messages that are no records.
    ignore_extra
        Whether fields that the schema does not name are left out.
    """
    import numpy as np

    rows, before, tally, bad = list[Any](), 0, Tally(), list[BadRow]()
    for part in batch.read(run.synth.input_schema, form, bad_rows, ignore_extra=ignore_extra):
        try:
            some, counts, worse = run.encode_batch(part, bad_rows=bad_rows)
        except TableError as error:
            raise batch.locate(error, before, form) from None
        rows.append(some)
        tally, before = tally + counts, before + len(some)
        bad += worse
    return np.concatenate(rows), tally, bad


def feed(
    run: Run,
    topic: Topic,
    form: str,
    *,
    bad_rows: str = "stop",
    ignore_extra: bool = False,
    clock: Callable[[], float] = time.monotonic,
    progress: Callable[[], None] = lambda: None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Take everything that a topic gives, and publish whenever it is due.

    Parameters
    ----------
    run
        The run; its position `POSITION` is that of the topic.
    topic
        The source.
    form
        The format of the values.
    bad_rows
        What happens to messages that are no records.
    ignore_extra
        Whether fields that the schema does not name are left out.
    clock
        The time in seconds; its start does not matter.
    progress
        Called after each batch.
    stop
        Asked after each batch whether to return.
    """
    run.publish_if_due(clock())
    for batch in topic:
        if batch is not None:
            take(run, batch, form, bad_rows, ignore_extra=ignore_extra)
        progress()
        run.publish_if_due(clock())
        answer_requests(run)
        progress()
        if stop():
            return
