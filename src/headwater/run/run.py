"""One run of a mechanism that outlives its process: keep, count, publish.

The order of steps is what makes it survive (`proofs/survival.md`). Records are kept *before* they are counted, and
whatever is needed to measure again exactly what a release shows is kept *before* the release is seen. A run without a
state cannot be continued, and starting it anew spends ε anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from headwater.public.release import Release
from headwater.run.config import RunConfig
from headwater.run.durable import DurableSynthesizer
from headwater.run.opening import Windows, begun, continued, holds_run, open_store
from headwater.run.schedule import Schedule
from headwater.run.sink import Published, Sink
from headwater.run.store import Store
from headwater.run.taking import TakingRun


class Run(TakingRun):
    """One run: what it has taken, what it keeps, what it has published. Made by `open`; threads may share it.

    It has no clock, reads no files of records and starts no thread: `headwater.run.feed` does, or a service.

    Parameters
    ----------
    durable
        The synthesizer and its state; `open` and `resume` make it.
    sink
        Where releases go.
    schedule
        When `publish_if_due` publishes.
    windows
        For numbers of last records, where windows of them go, beside every release.

    Formal guarantees
    -----------------
    `take` is atomic: after an error, an interrupt or a kill the batch and its position are kept whole or not at all.
    However often a run is interrupted and opened again, everything that it publishes is what one uninterrupted run
    with the same key and records would have published (`proofs/survival.md`).

    Examples
    --------
    >>> import tempfile
    >>> from headwater import Number, Schema
    >>> from headwater.run import FolderSink
    >>> folder = Path(tempfile.mkdtemp())
    >>> config = RunConfig(Schema(x=Number(0, 1)), epsilon=1.0)
    >>> with Run.open(config, FolderSink(folder / "out"), state=folder / "run.state") as run:
    ...     run.take({"x": [0.2, 0.4, 0.9]}, position={"batch": 1})
    ...     Path(run.publish().place).name
    3
    'release-000000000003'
    """

    def __init__(
        self, durable: DurableSynthesizer, sink: Sink, schedule: Schedule, windows: Mapping[int, Sink] | None = None
    ) -> None:
        super().__init__(durable, schedule)
        self.sink, self.windows = sink, dict(windows or {})
        self._publishing = threading.RLock()  # one release at a time; records may be taken meanwhile
        self._unreported = list[Published]()  # since `publish_if_due` has returned

    # ---- beginning and end

    @classmethod
    def open(
        cls,
        config: RunConfig,
        sink: Sink,
        *,
        state: Path | None = None,
        schedule: Schedule = Schedule(),  # noqa: B008 - frozen
        allow_copy: bool = False,
        windows: Mapping[int, Sink] | None = None,
    ) -> Run:
        """Start a run, or continue the one that the state holds.

        Parameters
        ----------
        config
            Schema, ε and mechanism.
        sink
            Where releases go.
        state
            The file that keeps the run; without one it cannot be continued.
        schedule
            When `publish_if_due` publishes.
        allow_copy
            Whether the state may be a copy or an older backup: no other run may continue from it.
        windows
            Beside every release, one about the last so many records goes to each of these sinks.
        """
        windows = dict(windows or {})
        if state is None or not holds_run(state, config, allow_copy=allow_copy):
            return cls(begun(config, state, sink, windows), sink, schedule, windows)
        with open_store(state, allow_copy=allow_copy) as store:
            config.refuse_other(store)
            return cls._continued(store, sink, schedule, allow_copy, windows)

    @classmethod
    def resume(cls, state: Path, sink: Sink, *, allow_copy: bool = False) -> Run:
        """Continue the run of a state under the configuration that the state holds, with no schedule.

        If the run was killed, a release may be due that its schedule knows of. As long as no record is taken here, it
        stays due, and is published when the run itself goes on.

        Parameters
        ----------
        state
            The file that keeps the run.
        sink
            Where releases go.
        allow_copy
            Whether the state may be a copy or an older backup: no other run may continue from it.
        """
        with open_store(state, allow_copy=allow_copy) as store:
            return cls._continued(store, sink, Schedule(), allow_copy, {}, journal_stays=True)

    @classmethod
    def _continued(
        cls,
        store: Store,
        sink: Sink,
        schedule: Schedule,
        allow_copy: bool,
        windows: Windows,
        *,
        journal_stays: bool = False,
    ) -> Run:
        durable = continued(store, sink, windows, allow_copy=allow_copy, journal_stays=journal_stays)
        run = cls(durable, sink, schedule, windows)
        with run._durable.step():
            run._count()
        return run

    def close(self) -> None:
        """Release the state, from which any later version can then continue."""
        with self._publishing:
            self._durable.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- publishing

    def publish_if_due(self, now: float | None = None) -> list[Published]:
        """Publish every release that is due, by number of records or by the clock.

        After an error what was published before it is in what the next call returns.

        Parameters
        ----------
        now
            The time in seconds, by any clock that only goes forward. Without it only the number of records counts.
        """
        with self._publishing:
            self._publish_due(now)
            found, self._unreported = self._unreported, []
            return found

    def _publish_due(self, now: float | None = None) -> None:
        while True:
            with self._durable.turn:
                with self._durable.step():
                    self._count()
                t, timely = self.synth.t, self._due.by_clock(now)
                due = self._due.by_records(t)
                if not due and not (timely and t > 0 and t not in self._due.published):
                    if timely:
                        self._due.restart(now)
                    with self._durable.step():
                        self._durable.snapshot_if_large()
                    return
                begun = self._begin_all()
            self._unreported.append(self._publish(begun))
            if not due:
                self._due.restart(now)  # and not before: what failed is tried again at once

    def publish(self) -> Published | None:
        """Publish the release of this moment, unless that was done before or nothing has come yet."""
        with self._publishing:
            self._publish_due()
            with self._durable.turn:
                t = self.synth.t
                begun = None if t == 0 or t in self._due.published else self._begin_all()
            if begun:
                self._unreported.append(self._publish(begun))
            found, self._unreported = self._unreported, []
            return found[-1] if found and found[-1].t == t else None

    def publish_to(self, sink: Sink, *, last: int | None = None, since: int | None = None) -> Published:
        """Publish once, outside the schedule and into any sink: all records so far, or a window.

        Parameters
        ----------
        sink
            Where the release goes.
        last
            Only about the last so many records.
        since
            Only about the records after the first so many.
        """
        with self._publishing:
            self._publish_due()
            sink.begin(self.run_id)
            return sink.publish(self._begin(sink.location, last, since)(), self.run_id)

    def release(self, *, last: int | None = None, since: int | None = None) -> Release:
        """The release of this moment, all of it or a window, to be shown without a sink. Costs no further ε."""
        return self._begin(None, last, since)()

    def _begin(self, location: str | None, last: int | None = None, since: int | None = None) -> Callable[[], Release]:
        with self._durable.turn:
            with self._durable.step():
                self._count()  # after an error in a step, what was kept is counted again first
            make, policy = self.synth.begin_release(last=last, since=since), self._bad_rows.in_force
            with self._durable.step():
                self._durable.note_measured(location)
            return lambda: self._bad_rows.stated(make(), policy)

    def _begin_all(self) -> list[tuple[Sink, Callable[[], Release]]]:
        sinks = [*self.windows.items(), (None, self.sink)]
        with self._durable.turn:
            return [(sink, self._begin(sink.location, last)) for last, sink in sinks]

    def _publish(self, begun: list[tuple[Sink, Callable[[], Release]]]) -> Published:
        """Hand a release to the sink, its windows before it, and write down that all of them are there."""
        *windows, (sink, make) = begun
        for other, window in windows:
            other.publish(window(), self.run_id)
        published = sink.publish(make(), self.run_id)
        if self.store:
            self.store.published(published.t, published.sha256)
        self._due.published.add(published.t)
        return published
