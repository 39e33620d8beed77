"""One run inside a service: who writes to it, who publishes from it, what readers see of it."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from headwater.run import FolderSink, Published, Run
from headwater.service.config import Limits, RunSettings
from headwater.service.events import Events
from headwater.service.feeder import Feeder
from headwater.service.files import FileCache
from headwater.service.live import LivePage
from headwater.service.problems import ProblemError
from headwater.service.publisher import Publisher
from headwater.service.releases import Releases
from headwater.service.writer import Writer


class HostedRun:
    """A run with its threads. Opened and closed by `headwater.service.Service`."""

    def __init__(self, name: str, settings: RunSettings, limits: Limits, cache: FileCache) -> None:
        self.name, self.settings = name, settings
        self.schema = settings.schema
        self._sink = FolderSink(settings.out, settings.format, rows=settings.rows, keep=settings.keep)
        self.run = Run.open(
            settings,
            self._sink,
            state=settings.state_path,
            schedule=settings.schedule,
            allow_copy=settings.allow_copy,
        )
        try:
            self.t = self.run.t  # written by the writer's thread; reading it never waits for a step of the run
            self.mechanism, self.guarantee = self.run.synth.mechanism, self.run.synth.guarantee
            self.events = Events(self.state)
            self.releases = Releases(self.run, lambda: self.t, settings.out, cache)
            self.live = LivePage(name, self.releases)
            self.refused: Counter[str] = Counter()  # secret: made from raw data
            self._refused_lock = threading.Lock()
            extra = settings.ignore_extra
            self.writer = Writer(self.run, limits, self._taken, settings.policy, ignore_extra=extra)
            self.publisher = Publisher(self.run, self._published, self.writer.look)
            self.feeder = Feeder(name, self.run, self.writer, settings) if settings.topic else None
        except BaseException:
            self.run.close()
            raise

    @property
    def failing(self) -> str:
        """Why the run cannot take records or publish; empty if it can."""
        return self.writer.failing or self.publisher.failing or (self.feeder.failing if self.feeder else "")

    def state(self) -> dict[str, Any]:
        """What readers of events get when it changes. Public."""
        newest = self.releases.newest()
        return {"t": self.t, "releases": self.releases.count(), "newest": newest}

    def count_refused(self, problem: ProblemError) -> None:
        """Note that a post was refused because of its records. Secret: only admins may see it."""
        with self._refused_lock:
            self.refused[str(problem.more.get("column", ""))] += 1

    def status(self) -> dict[str, Any]:
        """What only admins may see: it is made from raw data."""
        with self._refused_lock:
            refused = dict(self.refused)
        tally = self.run.tally
        found = {"failing": self.failing, "queued": self.writer.queued, "behind": self.t - self.run.synth.t}
        return {
            "warning": "NOT PRIVATE",
            **self.state(),
            **found,
            "refused_posts_by_column": refused,
            "tally": tally.to_dict(),
            "losses": list(tally.warnings()),
        }

    def close(self) -> None:
        """Take what is queued, publish what is due, keep a snapshot, release the state."""
        if self.feeder:
            self.feeder.close()
        self.writer.close()
        self.publisher.close()
        self.run.close()

    def _taken(self, t: int) -> None:
        self.t = t
        self.publisher.wake()
        self.events.notify()

    def _published(self, published: Published) -> None:
        self.releases.add(published.t)
        self.events.notify()
