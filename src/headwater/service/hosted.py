"""The runs of a service: who writes to each, who publishes from it, what readers see of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from headwater.run import FolderSink, Run
from headwater.run.feed import MEASURE_EVERY
from headwater.service.answers import ProblemError, busy
from headwater.service.events import Events
from headwater.service.live import LivePage
from headwater.service.metrics import Metrics
from headwater.service.releases import Releases
from headwater.service.render import Cache, Queue
from headwater.service.settings import Limits, RunSettings, ServiceConfig
from headwater.service.tokens import Tokens
from headwater.service.write import Writer

_IDLE, _AFTER_ERROR = 1.0, 5.0  # seconds between two looks whether a release is due


class HostedRun:
    def __init__(
        self, name: str, settings: RunSettings, limits: Limits, cache: Cache, queues: tuple[Queue, Queue]
    ) -> None:
        self.name, self.settings, self._cache = name, settings, cache
        sink = FolderSink(settings.out, settings.format, rows=settings.rows, keep=settings.keep)
        self.run = Run.open(
            settings, sink, state=settings.state_path, schedule=settings.schedule, allow_copy=settings.allow_copy
        )
        try:
            self.t = self.run.t  # set by the writer's thread; reading it never waits for a step of the run
            self.mechanism, self.guarantee = self.run.synth.mechanism, self.run.synth.guarantee
            self.events = Events(self.state)
            self.releases = Releases(self.run, lambda: self.t, settings.out, settings.rows, cache, queues)
            self.live = LivePage(name, self.releases)
            self.refused: Counter[str] = Counter()  # secret: made from raw data
            self._publishing, self._wake, self._closing = "", threading.Event(), False
            self.writer = Writer(self.run, settings, limits, self._taken, cache)
            self._thread = threading.Thread(target=self._publish, name="publisher", daemon=True)
            self._thread.start()
        except BaseException:
            self.run.close()
            raise

    @property
    def failing(self) -> str:
        return self.writer.failing or self._publishing

    def state(self) -> dict[str, Any]:
        return {"t": self.t, **self.releases.state()}

    def count_refused(self, problem: ProblemError) -> None:
        """Note that a post was refused because of its records, in the event loop. Secret: only admins may see it."""
        self.refused[str(problem.more.get("column", ""))] += 1

    def status(self) -> dict[str, Any]:
        """What only admins may see: it is made from raw data."""
        tally = self.run.tally
        return {
            "warning": "NOT PRIVATE",
            **self.state(),
            "failing": self.failing,
            "queued": self.writer.queued,
            "behind": self.t - self.run.synth.t,
            "refused_posts_by_column": dict(self.refused),
            "tally": tally.to_dict(),
            "losses": list(tally.warnings()),
        }

    def close(self) -> None:
        self.writer.close()
        self._closing = True
        self._wake.set()
        self._thread.join()
        self.run.close()

    def _taken(self, t: int) -> None:
        self.t = t
        self._wake.set()

    def _publish(self) -> None:
        measured = time.monotonic()
        while not self._closing:
            try:
                self._cache.keep_free()
                for published in self.run.publish_if_due(time.monotonic()):
                    self.releases.add(published.t)
                self.writer.look()
                if time.monotonic() - measured >= MEASURE_EVERY:
                    self.run.measure()
                    measured = time.monotonic()
                self._publishing = ""
                self._wake.wait(_IDLE)
            except Exception as error:  # a full disk, for instance; nothing is lost, and it is tried again
                self._publishing = type(error).__name__
                if not self._closing:
                    self._wake.clear()
                    time.sleep(_AFTER_ERROR)
            self._wake.clear()


class Service:
    """All runs of one service, opened and closed together, and who may do what with them. It has no sockets."""

    def __init__(self, config: ServiceConfig) -> None:
        self.config, limits = config, config.limits
        self.tokens = Tokens(config.tokens) if config.tokens is not None else None
        self.metrics, self.stopping = Metrics(), False
        self.encoding = asyncio.Semaphore(2)  # large bodies that are read at a time, by threads
        self._reserved = 0  # bytes of bodies; used in one loop only
        self._queues = Queue("small", threads=2, share=16, most=256), Queue("large", threads=1, share=4, most=32)
        state = next(iter(config.runs.values())).state_path
        self._cache = Cache(state.parent, limits.cache_bytes, limits.free_bytes)
        self.runs: dict[str, HostedRun] = {}
        try:
            for name, settings in config.runs.items():
                self.runs[name] = HostedRun(name, settings, limits, self._cache, self._queues)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        if self._reserved and self._reserved + size > self.config.limits.queued_bytes:
            raise busy("too much is being sent", 429, 1)
        self._reserved += size
        try:
            yield
        finally:
            self._reserved -= size

    def stop(self) -> None:
        self.stopping = True
        for queue in (*self._queues, *(queue for run in self.runs.values() for queue in run.releases.queues)):
            queue.close()

    def close(self) -> None:
        self.stop()
        for run in self.runs.values():
            run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
