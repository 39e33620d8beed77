"""A topic as an iterator of batches."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Self

from headwater.kafka.batch import TopicBatch
from headwater.kafka.offsets import Offsets, TopicError

_BATCH = 10_000  # messages that are taken at a time, at most
_NO_ID = "A" * 22  # zero, as brokers of before Kafka 2.8 say it


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
    poll_seconds
        How long to stay idle before that is said.
    look_seconds
        How often to look for new partitions.
    timeout
        For how many seconds a broker may not answer.
    options
        Further settings of librdkafka, such as those for TLS.
    """

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
        self.name, self._poll = name, poll_seconds
        self._look_seconds, self._timeout = look_seconds, timeout
        self._fresh, self._before = position is None, position
        self._torn = False  # whether messages were read and not given, because of an error
        self._offsets = Offsets(name, position, self._is_compacted)
        self._looked = self._asked = -math.inf
        self._compacted: bool | None = None  # what the broker said last; None if it did not say
        self._brokers = {**(options or {}), "bootstrap.servers": servers}
        self._asked_id: Future[Any] | None = None
        self._admin: Any = None  # whom that was asked of
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

    def _trouble(self, error: object) -> None:
        """Brokers that are away come back: the library connects again by itself."""
        self.trouble = str(error)

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
        messages = self._consumer.consume(_BATCH, timeout=self._poll)
        values, places = list[bytes](), list[tuple[int, int]]()
        for message in messages:
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
            self._compacted = self.ask_compacted()
            self._asked = time.monotonic()
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
        assert asked is not None  # noqa: S101 - for the type checker: the callers have looked
        try:
            found = str(asked.result().topic_id)
        except self._kafka.KafkaException:
            return False
        finally:
            self._admin = None  # a client that is left open tells of brokers that went away
        if found != _NO_ID:
            self._offsets.check_id("topic_id", found)
        return found != _NO_ID

    def _refuse(self, message: Any) -> None:  # noqa: ANN401 - a message of the library
        error, partition = message.error(), message.partition()
        expected = self._offsets.next.get(partition)
        codes = self._kafka.KafkaError
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            raise TopicError(
                f"partition {partition} of {self.name!r} has no offset {expected} any more: messages "
                "that were not read yet have expired, or the topic was made anew; nothing was counted of what is gone. "
                "Give the topic a longer retention, and start a new run"
            )
        if error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_PARTITION, codes._UNKNOWN_TOPIC):
            raise TopicError(f"partition {partition} of {self.name!r} is gone: the topic was removed or made anew")
        if error.fatal():
            raise TopicError(f"the broker refused for good: {error.name()}")
        self.trouble = error.name()

    def partitions(self) -> list[int] | None:
        """The partitions that the topic has now; None if that is not known yet."""
        try:
            about = self._consumer.list_topics(self.name, timeout=self._timeout)
        except self._kafka.KafkaException as error:
            self.trouble = str(error.args[0].name() if error.args else "")
            if self._fresh and not self._offsets.next:
                time.sleep(self._poll)
            return None
        if about.cluster_id:
            self._offsets.check_id("cluster", about.cluster_id)
        found = about.topics[self.name]
        if found.error is not None:
            if found.error.code() != self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART or self._offsets.next:
                raise TopicError(f"the topic {self.name!r} cannot be read: {found.error.name()}")
            return None  # not there yet
        return sorted(found.partitions)

    def _look(self) -> None:
        """Find new partitions, and read them from their beginning."""
        found = self.partitions()
        if found is None:
            return
        self._asked_id = self.ask_id()
        if "topic_id" in self._offsets.ids and not self._check_id():  # whoever never said it is not waited for
            self.trouble = "the brokers do not say which topic this is"
            return
        self._looked = time.monotonic()
        self._offsets.check_partitions(found)
        new = [partition for partition in found if partition not in self._offsets.next]
        for partition in new:
            place = self._kafka.TopicPartition(self.name, partition)
            low, _ = self._consumer.get_watermark_offsets(place, timeout=self._timeout)
            self._offsets.begin(partition, low)
        if new or not self._consumer.assignment():
            places = [self._kafka.TopicPartition(self.name, *place) for place in self._offsets.next.items()]
            self._consumer.assign(places)
        self._fresh = False

    def close(self) -> None:
        """End the connection."""
        self._asked_id = self._admin = None
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
