"""One thread that reads a topic into a run of the service, through the same writer as posts."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import Any

from headwater import kafka
from headwater.run import Run
from headwater.service.bodies import Form
from headwater.service.config import RunSettings
from headwater.service.logs import log
from headwater.service.posts import Accepted, Post
from headwater.service.problems import ProblemError
from headwater.service.writer import Writer

_AGAIN = 1.0  # seconds before a batch is handed over again that could not be kept


class Feeder:
    """Hands the batches of a topic to the writer, each with the offsets behind it.

    The run's position says where the topic was read up to.
    """

    def __init__(self, name: str, run: Run, writer: Writer, settings: RunSettings) -> None:
        self._name, self._run, self._writer = name, run, writer
        self._reading: dict[str, Any] = {"bad_rows": settings.policy, "ignore_extra": settings.ignore_extra}
        topic = settings.topic
        assert topic is not None  # noqa: S101 - for the type checker: only runs with a topic have a feeder
        self._format = topic.format
        self._closing = False
        self.failing = ""  # why nothing is read any more, without any value
        self._topic = kafka.Topic(
            topic.servers, topic.topic, run.position(kafka.POSITION), poll_seconds=0.5, options=topic.options
        )
        self._thread = threading.Thread(target=self._loop, name="feeder", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End after the batch that is being taken."""
        self._closing = True
        self._thread.join()

    def _loop(self) -> None:
        try:
            with self._topic:
                while not self._closing:
                    batch = self._topic.next()
                    if batch is not None:
                        self._take(batch)
        except Exception as error:  # a bad message, or messages that are gone: somebody has to look
            self.failing = type(error).__name__
            known = isinstance(error, ValueError | kafka.TopicError)  # these texts hold no value
            log("topic stopped", run=self._name, error=type(error).__name__, reason=str(error) if known else "")

    def _take(self, batch: kafka.TopicBatch) -> None:
        """Hand over a batch again and again until it is kept: the topic is not read on before."""
        rows, tally, bad = kafka.encode(self._run, batch, self._format, **self._reading)
        while not self._closing:
            position = {kafka.POSITION: batch.position}
            kept = Future[Accepted]()
            try:
                self._writer.submit(Post(b"", Form("rows"), None, b"", rows, tally, bad, position, kept))
                kept.result()
                return
            except ProblemError:
                time.sleep(_AGAIN)
                if self._run.position(kafka.POSITION) == batch.position:  # kept in spite of an error
                    return
