"""One run of a mechanism that outlives its process: keep, count, publish.

The order of steps is what makes it survive (`proofs/survival.md`). Records are kept *before* they are counted, and
whatever is needed to measure again exactly what a release shows is kept *before* the release is seen. A run without a
state cannot be continued, and starting it anew spends ε anew.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from headwater.mechanisms.counted import BucketedCounts
from headwater.mechanisms.protocol import Rows
from headwater.release.release import Release
from headwater.run.bad_rows import BadRows
from headwater.run.config import RunConfig
from headwater.run.due import Due
from headwater.run.durable import DurableSynthesizer
from headwater.run.opening import Windows, begun, continued, holds_run, open_store
from headwater.run.schedule import Schedule
from headwater.run.sink import Published, Sink
from headwater.run.store import Store
from headwater.synthesizer import Synthesizer
from headwater.table.bad_rows import BadRow, row_texts
from headwater.table.readers import Batch
from headwater.table.tally import Tally


class Run:
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
        self.sink, self.schedule, self.windows = sink, schedule, dict(windows or {})
        self.epsilon, self.run_id = durable.synth.epsilon, durable.synth.run_id
        self.guarantee = durable.synth.guarantee
        self._durable = durable
        self._due = Due(schedule, durable.store.releases() if durable.store else ())
        self._bad_rows = BadRows(durable)
        self._publishing = threading.RLock()  # one release at a time; records may be taken meanwhile

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

    # ---- taking records

    @property
    def store(self) -> Store | None:
        """What keeps the run, if anything does. Secret."""
        return self._durable.store

    @property
    def state(self) -> Path | None:
        """The file that keeps the run, if there is one. Secret."""
        return self.store.path if self.store else None

    @property
    def t(self) -> int:
        """How many records have been taken. Public."""
        return self._durable.t

    @property
    def synth(self) -> Synthesizer:
        """The synthesizer. It may be behind `t` until `publish_if_due` was called."""
        return self._durable.synth

    def position(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """The last value that `take` has kept under a name; ``None`` if there is none, or no state.

        Parameters
        ----------
        name
            As given to `take`.
        """
        return self.store.position(name) if self.store else None

    @property
    def tally(self) -> Tally:
        """How many rows were bad, and how many values were clipped, unlisted or missing. Secret: there is no noise."""
        return self._bad_rows.tally.with_capped(self.synth.capped, self.synth.t)

    @property
    def quarantine(self) -> Path | None:
        """Where bad rows go under ``bad_rows="quarantine"``; None without a state."""
        return self._bad_rows.quarantine

    def take(self, table: object, *, position: Mapping[str, Any] | None = None, bad_rows: str | None = None) -> int:
        """Take a batch in order of arrival, all of it or nothing, and return how many records there are with it.

        When it returns, the batch is on the disk. Call `publish_if_due` afterwards.

        Parameters
        ----------
        table
            Any kind of table that the schema reads. One with anything wrong in it is refused whole.
        position
            Named JSON values that are kept in the same transaction, such as an offset in a file, the offsets of a
            topic, or an idempotency key. Names that are not given stay as they are; ``None`` removes one.
        bad_rows
            What happens to rows that are no records (`headwater.table.bad_rows`): ``"stop"``, ``"null"`` or
            ``"quarantine"``. Unless given, what the schema says; ``"stop"`` if it says nothing.
        """
        policy = self._bad_rows.policy(bad_rows)
        found = self.synth.encode_batch(table, bad_rows=policy)  # all of it is checked before any of it is kept
        bad = row_texts(table, found.bad) if policy == "quarantine" and found.bad else ()
        return self.take_rows(found.rows, found.tally, position=position, quarantined=bad)

    def take_batch(self, batch: Batch, *, position: Mapping[str, Any], bad_rows: str | None = None) -> int:
        """Take a batch that was read from files, as `take` does, with its bad lines.

        Parameters
        ----------
        batch
            Of `headwater.table.readers`.
        position
            As for `take`.
        bad_rows
            As for `take`; the batch must have been read under the same policy.
        """
        rows, tally, bad = self.encode_batch(batch, bad_rows=bad_rows)
        return self.take_rows(rows, tally, position=position, quarantined=bad)

    def encode_batch(self, batch: Batch, *, bad_rows: str | None = None) -> tuple[Rows, Tally, Sequence[BadRow]]:
        """What `take_batch` keeps of a batch: its rows, what was bad or clipped in it, and bad rows for quarantine."""
        policy = self._bad_rows.policy(bad_rows)
        found = self.synth.encode_batch(batch.table, bad_rows=policy)
        bad = batch.all_bad(found.bad) if policy == "quarantine" else ()
        found = found.among(batch) if batch.bad or found.bad else found
        return found.rows, found.tally, bad

    def take_rows(
        self,
        rows: Rows,
        tally: Tally = Tally(),  # noqa: B008 - frozen
        *,
        position: Mapping[str, Any] | None = None,
        quarantined: Sequence[BadRow] = (),
        receipts: bytes = b"",
    ) -> int:
        """Take a batch that was encoded before (`Synthesizer.encode_batch`), as `take` does.

        Parameters
        ----------
        rows
            What is kept of each record.
        tally
            What was clipped, unlisted, missing or bad in it.
        position
            As for `take`.
        quarantined
            Bad rows whose text is to be put beside the state.
        receipts
            Kept in the same transaction, and given back by `receipts`.
        """
        with self._durable.step():
            kept = dict(position or {}) | self._bad_rows.add(tally, quarantined)
            t = self._durable.keep(self.synth.stamped(rows), kept, receipts)
            self._count()
            self._durable.snapshot_if_large()
            return t

    def take_counts(
        self,
        counts: BucketedCounts,
        tally: Tally = Tally(),  # noqa: B008 - frozen
        *,
        position: Mapping[str, Any] | None = None,
        quarantined: Sequence[BadRow] = (),
    ) -> int:
        """Take records that were counted elsewhere (`Synthesizer.histogram`), as `take` does with the records.

        Parameters
        ----------
        counts
            Of all records after the first `t`, up to any number, each of them counted once.
        tally
            What was clipped, unlisted, missing or bad in them.
        position
            As for `take`.
        quarantined
            Bad rows whose text is to be put beside the state.
        """
        with self._durable.step():
            checked = self.synth.check_counts(counts, self.t)
            kept = dict(position or {}) | self._bad_rows.add(tally, quarantined)
            t = self._durable.keep(checked.rows, kept, counts=checked.counts)
            self._count()
            self._durable.snapshot_if_large()
            return t

    def encode(self, table: object) -> Rows:
        """What `take` keeps of a batch: a row of integers for every record. Not private. Nothing is counted."""
        return self.synth.encode(table)

    def receipts(self) -> list[bytes]:
        """What `take_rows` has kept as receipts, oldest first; very old ones are forgotten."""
        return self.store.receipts() if self.store else []

    def keep_position(self, position: Mapping[str, Any]) -> None:
        """Keep positions without records, such as that a file was read to its end."""
        with self._durable.step():
            self._durable.keep_position(position)

    def _count(self) -> None:
        """Count what is pending, up to the next release that is due by number of records and not yet published."""
        self._durable.count(self._due.next_by_records(self.synth.t, self.t))

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
                with self._durable.step():
                    self._count()
                    t, due = self.synth.t, self._due.by_records(self.synth.t)
                    if not due and self._due.by_clock(now):
                        due, now = t > 0 and t not in self._due.published, None
                    if not due:
                        self._durable.snapshot_if_large()
                        return found
                found.append(self._publish(self._release(self.sink.location)))

    def publish(self) -> Published | None:
        """Publish the release of this moment, unless that was done before or nothing has come yet."""
        with self._publishing:
            found = self.publish_if_due()
            with self._durable.step():
                t = self.synth.t
                if t == 0 or t in self._due.published:
                    return found[-1] if found and found[-1].t == t else None
            return self._publish(self._release(self.sink.location))

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
            return sink.publish(self._release(sink.location, last, since), self.run_id)

    def release(self, *, last: int | None = None, since: int | None = None) -> Release:
        """The release of this moment, all of it or a window, to be shown without a sink. Costs no further ε."""
        return self._release(None, last, since)

    def _release(self, location: str | None, last: int | None = None, since: int | None = None) -> Release:
        """The release of this moment; what it needs to be measured again is kept before it is returned.

        Records may be taken meanwhile. They are not counted beyond a release that is due by number of records.
        """
        release = self.synth.release(last=last, since=since)
        with self._durable.step():
            self._durable.note_measured(location)
        return release

    def _publish(self, release: Release) -> Published:
        """Hand a release to the sink, its windows before it, and write down that all of them are there."""
        for last, sink in self.windows.items():
            sink.publish(self._release(sink.location, last), self.run_id)
        published = self.sink.publish(release, self.run_id)
        if self.store:
            self.store.published(published.t, published.sha256)
        self._due.published.add(published.t)
        return published
