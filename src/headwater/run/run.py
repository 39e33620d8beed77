"""One run of a mechanism that outlives its process: keep, count, publish.

The order of steps is what makes it survive (`proofs/survival.md`). Records are kept *before* they are counted, and
whatever is needed to measure again exactly what a release shows is kept *before* the release is seen. A run without a
state cannot be continued, and starting it anew spends ε anew.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from headwater.release.release import Release
from headwater.run.config import RunConfig
from headwater.run.restore import counted, measured_by, restored
from headwater.run.schedule import Schedule
from headwater.run.sink import Published, Sink, newest
from headwater.run.store import StateCopiedError, Store
from headwater.run.store.entries import Entry
from headwater.run.store.identity import REMEDY
from headwater.synthesizer import Synthesizer

_LEAST_SNAPSHOT = 1 << 23  # bytes of journal that are not worth a snapshot


class Run:
    """One run: what it has taken, what it keeps, what it has published. Made by `open`; threads may share it.

    It has no clock, reads no files of records and starts no thread: `headwater.run.feed` does, or a service, or Spark.

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

    def __init__(self, synth: Synthesizer, store: Store | None, sink: Sink, schedule: Schedule) -> None:
        self.sink, self.schedule = sink, schedule
        self.epsilon, self.run_id = synth.epsilon, synth.run_id
        self._store = store
        self._synth: Synthesizer | None = synth  # None after an error: read again from the state
        self._pending: list[Entry] = []  # kept, and not yet counted
        self._done = set(store.releases()) if store else set[int]()
        self._clock: float | None = None
        self._turn, self._publishing = threading.RLock(), threading.RLock()

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
        """
        if state is None or not state.exists() or _remove_unused(state, config, allow_copy):
            synth = config.synthesizer()
            sink.begin(synth.run_id)
            if state is None:
                return cls(synth, None, sink, schedule)
            store = Store.create(state, config.to_dict())
            try:
                store.snapshot(0, synth.to_bytes())
            except BaseException:
                store.close()
                raise
            return cls(synth, store, sink, schedule)
        return cls._continued(Store.open(state, allow_copy=allow_copy), config, sink, schedule, allow_copy)

    @classmethod
    def resume(cls, state: Path, sink: Sink, *, allow_copy: bool = False) -> Run:
        """Continue the run of a state under the configuration that the state holds, with no schedule.

        Parameters
        ----------
        state
            The file that keeps the run.
        sink
            Where releases go.
        allow_copy
            Whether the state may be a copy or an older backup: no other run may continue from it.
        """
        return cls._continued(Store.open(state, allow_copy=allow_copy), None, sink, Schedule(), allow_copy)

    @classmethod
    def _continued(
        cls, store: Store, config: RunConfig | None, sink: Sink, schedule: Schedule, allow_copy: bool
    ) -> Run:
        try:
            if config is not None:
                config.refuse_other(store)
            synth, pending = restored(store)
            run = cls(synth, store, sink, schedule)
            run._pending = pending
            if not allow_copy:
                run._refuse_older(store)
            sink.begin(synth.run_id)
            with run._turn:
                run._count()
        except BaseException:
            store.close()
            raise
        return run

    def _refuse_older(self, store: Store) -> None:
        """Refuse a state that is behind what its run has published: every release is of records that were kept."""
        for location in {self.sink.location, *(store.noted("sinks") or ())}:
            if (t := newest(location, self.run_id)) > store.t:
                problem = (
                    f"an older version of this state was put back: {location} holds a release of {t:,} records, and "
                    f"this state has taken {store.t:,}"
                )
                raise StateCopiedError(store.path, problem, REMEDY)

    def close(self) -> None:
        """Release the state, which then needs no journal of its own version: any later version can continue it."""
        with self._publishing, self._turn:
            if self._store is None:
                return
            with suppress(Exception):  # whatever was wrong has been said; a journal is as good, for the same version
                if self._store.journal_bytes or self._store.noted("measured_by"):
                    self._store.snapshot(self.synth.t, self.synth.to_bytes())
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- taking records

    @property
    def t(self) -> int:
        """How many records have been taken. Public."""
        with self._turn:
            t = self.synth.t  # which may read what is pending from the state
            return self._pending[-1].end if self._pending else t

    @property
    def synth(self) -> Synthesizer:
        """The synthesizer. It may be behind `t` until `publish_if_due` was called."""
        with self._turn:
            if self._synth is None:
                assert self._store is not None  # noqa: S101 - without a store it is never None
                self._synth, self._pending = restored(self._store)
                self._done = set(self._store.releases())
            return self._synth

    def position(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """The last value that `take` has kept under a name; ``None`` if there is none, or no state.

        Parameters
        ----------
        name
            As given to `take`.
        """
        return self._store.position(name) if self._store else None

    def take(self, table: object, *, position: Mapping[str, Any] | None = None) -> int:
        """Take a batch in order of arrival, all of it or nothing, and return how many records there are with it.

        When it returns, the batch is on the disk. Call `publish_if_due` afterwards.

        Parameters
        ----------
        table
            Any kind of table that the schema reads. One with anything wrong in it is refused whole.
        position
            Named JSON values that are kept in the same transaction, such as an offset in a file, the offsets of a
            topic, or an idempotency key. Names that are not given stay as they are; ``None`` removes one.
        """
        rows = self.synth.encode(table)  # all of it is checked before any of it is kept
        with self._turn:
            entry = Entry(self.t, rows, dict(position or {}))
            if self._store:
                self._keep(self._store, entry)
            with self._whole():
                self._pending.append(entry)
                self._count()
                self._snapshot_if_large()
            return entry.end

    def _keep(self, store: Store, entry: Entry) -> None:
        """Keep a batch before it is counted. If it was kept in spite of an error or interrupt, it will be counted."""
        try:
            store.append(entry.rows, entry.position)
        except BaseException:
            if store.t != entry.start:
                self._forget()
            raise

    def _count(self) -> None:
        """Let the mechanism count what is pending, up to the next release that is due by number of records."""
        while self._pending and not self._is_due(self.synth.t):
            entry, t = self._pending[0], self.synth.t
            stop = self._next_due(t, entry.end)
            counted(self._store, self.synth, entry.rows[t - entry.start : stop - entry.start])
            if self.synth.t >= entry.end:
                self._pending.pop(0)

    def _is_due(self, t: int) -> bool:
        return self.schedule.is_due(t) and t not in self._done

    def _next_due(self, t: int, end: int) -> int:
        due = self.schedule.next_due(t)
        while due is not None and due < end and due in self._done:
            due = self.schedule.next_due(due)
        return end if due is None else min(due, end)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """After an error or an interrupt in the middle, the state decides what was counted."""
        try:
            yield
        except BaseException:
            self._forget()
            raise

    def _forget(self) -> None:
        """Let the next call read everything from the state; without one, `Synthesizer` undoes what was half done."""
        if self._store:
            self._synth, self._pending = None, []

    def _snapshot_if_large(self) -> None:
        """Replace a journal that has outgrown the snapshot, so that all snapshots together cost linear time."""
        store = self._store
        if store and not self._pending and store.journal_bytes > max(store.snapshot_bytes, _LEAST_SNAPSHOT):
            store.snapshot(self.synth.t, self.synth.to_bytes())

    # ---- publishing

    def publish_if_due(self, now: float | None = None) -> list[Published]:
        """Publish every release that is due, by number of records or by the clock.

        Parameters
        ----------
        now
            The time in seconds, by any clock that only goes forward. Without it only the number of records counts.
        """
        found = list[Published]()
        with self._publishing:
            while True:
                with self._turn, self._whole():
                    self._count()
                    t, due = self.synth.t, self._is_due(self.synth.t)
                    if not due and self._is_time(now):
                        due, self._clock, now = t > 0 and t not in self._done, now, None
                    if not due:
                        self._snapshot_if_large()
                        return found
                    release = self._measured(self.sink)
                found.append(self._published(release))

    def _is_time(self, now: float | None) -> bool:
        if now is None or self.schedule.seconds is None:
            return False
        if self._clock is None:
            self._clock = now
        return now - self._clock >= self.schedule.seconds

    def publish(self) -> Published | None:
        """Publish the release of this moment, unless that was done before or nothing has come yet."""
        with self._publishing:
            found = self.publish_if_due()
            with self._turn, self._whole():
                t = self.synth.t
                if t == 0 or t in self._done:
                    return found[-1] if found and found[-1].t == t else None
                release = self._measured(self.sink)
            return self._published(release)

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
            self.publish_if_due()
            sink.begin(self.run_id)
            with self._turn, self._whole():
                release = self._measured(sink, last, since)
            return sink.publish(release, self.run_id)

    def _measured(self, sink: Sink, last: int | None = None, since: int | None = None) -> Release:
        """The release of this moment. Before anyone sees it, the state notes which version has measured it.

        What it shows can then be measured again exactly: by this version from the journal, or by any version from a
        snapshot, which holds the trees and clears the note.
        """
        release = self.synth.release(last=last, since=since)
        if self._store:
            sinks = self._store.noted("sinks") or []
            if self._store.noted("measured_by") is None or sink.location not in sinks:
                notes = {"measured_by": measured_by(self.synth), "sinks": sorted({*sinks, sink.location})}
                self._store.note(**notes)
        return release

    def _published(self, release: Release) -> Published:
        """Hand a release to the sink, and write down that it is there. Records may be taken meanwhile."""
        published = self.sink.publish(release, self.run_id)
        with self._turn:
            if self._store:
                self._store.published(published.t, published.sha256)
            self._done.add(published.t)
        return published


def _remove_unused(state: Path, config: RunConfig, allow_copy: bool) -> bool:
    """Whether a state was begun under another configuration and has taken nothing; then it is removed.

    That is what a first attempt leaves behind that failed before its first record. Nothing is lost.
    """
    with Store.open(state, allow_copy=allow_copy) as store:
        if store.t or store.releases() or config.matches(store):
            return False
        state.unlink()  # while nobody else can have it
    return True
