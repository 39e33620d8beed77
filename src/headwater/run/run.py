"""One run of a mechanism that outlives its process: keep, count, measure once and keep, show.

The order of steps is what makes it survive (`proofs/survival.md`). Records are kept *before* they are counted, and
whatever was measured is kept *before* a release shows it. A run without a state cannot be continued, and starting it
anew spends ε anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from headwater.public.release import Release
from headwater.public.tally import Tally, policy_of, row_texts, stated
from headwater.run import restore
from headwater.run.config import RunConfig, Schedule
from headwater.run.lock import StoreError, damaged
from headwater.run.measured import MeasuredFile, measured_beside
from headwater.run.restore import POLICY, QUARANTINE, TALLY, between, own_position, quarantined, restored
from headwater.run.sink import Published, Sink
from headwater.run.state import State
from headwater.secret.batch import Batch
from headwater.secret.read.batch import Batch as Lines
from headwater.synthesizer import Synthesizer


class Run:
    """One run: what it has taken, what it keeps, what it has published. Made by `open`; threads may share it.

    It has no clock, reads no files of records and starts no thread: `headwater.run.feed` does, or a service.

    Parameters
    ----------
    synth, pending, measured
        The synthesizer, the records that are kept and not yet counted, and the file of what was measured: `open` and
        `resume` make them.
    state
        What keeps the run, if anything does.
    sink
        Where releases go.
    schedule
        When `publish_if_due` publishes.
    windows
        For numbers of last records, where windows of them go, with every release.
    pending
        What is kept and not yet counted.
    measured
        The file of what was measured.

    Formal guarantees
    -----------------
    `take` is atomic: after an error, an interrupt or a kill the batch and its position are kept whole or not at all.
    Whatever was measured is written down before a release shows it, and never measured again (`proofs/survival.md`).

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
        self,
        synth: Synthesizer,
        state: State | None,
        sink: Sink,
        schedule: Schedule,
        windows: Mapping[int, Sink],
        pending: Sequence[tuple[int, Batch]] = (),
        measured: MeasuredFile | None = None,
    ) -> None:
        self.sink, self.schedule, self.windows = sink, schedule, windows
        self.schema, self.epsilon = synth.schema, synth.epsilon
        self.run_id, self.guarantee = synth.run_id, synth.guarantee
        self._synth: Synthesizer | None = synth  # None after an error in a step
        self._state, self._pending, self._measured = state, list(pending), measured
        self._before = measured.moments if measured else frozenset[int]()  # that were kept before this process began
        self._journal_stays, self._positions = False, dict[str, Any]()  # these of a run without a state
        self._published = set(state.releases()) if state else set[int]()
        self._last_clock: float | None = None  # at the last release that the clock made due
        self._turn = threading.RLock()  # for whatever must see one moment: no other thread takes or counts meanwhile
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
    ) -> Self:
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
        windows = windows or {}
        if state is not None and state.exists():
            with restore.kept_open(State.open(state, allow_copy=allow_copy)) as found:
                if found.t or found.releases() or config.matches(found.config):
                    config.refuse_other(found)
                    return cls._continued(found, sink, schedule, windows, allow_copy=allow_copy)
                found.close()
                measured_beside(state).unlink(missing_ok=True)
                state.unlink()  # a run that never took a record
        synth = config.synthesizer()
        restore.check_windows(synth, windows)
        for place in (sink, *windows.values()):
            place.begin(synth.run_id)
        if state is None:
            return cls(synth, None, sink, schedule, windows)
        restore.refuse_measured(state)
        with restore.kept_open(State.create(state, config.to_dict())) as found:
            found.snapshot(0, synth.to_bytes())
            measured = MeasuredFile(measured_beside(found.path), synth.run_id, None)
            return cls(synth, found, sink, schedule, windows, (), measured)

    @classmethod
    def resume(cls, state: Path, sink: Sink, *, allow_copy: bool = False) -> Self:
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
        with restore.kept_open(State.open(state, allow_copy=allow_copy)) as found:
            run = cls._continued(found, sink, Schedule(), {}, allow_copy=allow_copy)
            run._journal_stays = found.has_journal
        return run

    @classmethod
    def _continued(
        cls, state: State, sink: Sink, schedule: Schedule, windows: Mapping[int, Sink], *, allow_copy: bool
    ) -> Self:
        synth, pending, measured = restored(state)
        restore.check_windows(synth, windows)
        sinks = sink, *windows.values()
        if not allow_copy:
            restore.refuse_older(state, sinks, synth.run_id, measured)
        for place in sinks:
            place.begin(synth.run_id)
        run = cls(synth, state, sink, schedule, windows, pending, measured)
        with run._step():
            run._count()
        return run

    def close(self) -> None:
        """Leave a snapshot, from which a run goes on faster, and release the state."""
        with self._publishing, self._turn:
            if self._state is None:
                return
            with suppress(Exception):  # whatever was wrong has been said; a journal is as good
                if not self._journal_stays and not self._pending and self._state.has_journal:
                    self._state.snapshot(self.synth.t, self.synth.to_bytes())
            self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what is known of it

    @property
    def state(self) -> Path | None:
        """The file that keeps the run, if there is one. Secret."""
        return self._state.path if self._state else None

    @property
    def synth(self) -> Synthesizer:
        """The synthesizer. It may be behind `t` until `publish_if_due` was called."""
        with self._turn:
            if self._synth is None:
                assert self._state is not None  # noqa: S101 - only then is it forgotten
                synth, self._pending, self._measured = restored(self._state)
                self._synth = synth  # last: an interrupt before this line leaves it forgotten
            return self._synth

    @property
    def t(self) -> int:
        """How many records have been taken. Public."""
        with self._turn:
            t = self.synth.t  # which may read what is pending from the state
            return self._pending[-1][0] + self._pending[-1][1].records if self._pending else t

    @property
    def next_due(self) -> int | None:
        """The number of records, after `t`, at which the next release is due; None if their number decides nothing."""
        return self.schedule.next_due(self.t)

    @property
    def tally(self) -> Tally:
        """How many rows were bad, and how many values were clipped, unlisted or missing. Secret: there is no noise."""
        kept = self.position(TALLY)  # nothing is kept as long as all records are good
        return (Tally.from_dict(kept) if kept else Tally(self.t)).with_capped(self.synth.capped, self.synth.t)

    @property
    def quarantine(self) -> Path | None:
        """Where bad rows go under ``bad_rows="quarantine"``; None without a state."""
        return self._state.path.with_name(self._state.path.name + ".bad-rows.jsonl") if self._state else None

    def position(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """The last value that `take` has kept under a name, in memory only if there is no state; ``None`` if none was.

        Parameters
        ----------
        name
            As given to `take`.
        """
        return self._state.position(name) if self._state else self._positions.get(name)

    def receipts(self) -> list[bytes]:
        """What `take` has kept as receipts, oldest first; very old ones are forgotten."""
        return self._state.receipts() if self._state else []

    # ---- records in: keep, then count

    def policy(self, bad_rows: str | None = None) -> str:
        """What happens to bad rows from now on, as `take` has it. Releases state it: it is no secret.

        Parameters
        ----------
        bad_rows
            A policy of `headwater.public.tally`; unless given, what the schema says.
        """
        policy = policy_of(bad_rows, self.schema)
        if policy == "quarantine" and not self._state:
            raise ValueError("bad rows can be put in quarantine only with a state; use bad_rows='null' without one")
        if policy != (self._in_force or "stop"):
            with self._step():
                self._keep(None, {POLICY: policy})
        return policy

    @property
    def _in_force(self) -> str | None:
        found: str | None = self.position(POLICY)
        return found or getattr(self.schema, "bad_rows", None)

    def encode(self, table: object, *, bad_rows: str | None = None) -> Batch:
        """What `take` keeps of a table, or of records that were read from a file.

        Parameters
        ----------
        table
            Any kind of table that the schema reads, or a batch of `headwater.secret.read`, read under the same policy.
        bad_rows
            As for `take`.
        """
        return self.encoder(bad_rows)(table)

    def encoder(self, bad_rows: str | None = None) -> Callable[[object], Batch]:
        """`encode` for another thread: it does not wait while records are counted, for it uses none of them.

        Parameters
        ----------
        bad_rows
            As for `take`.
        """
        synth, policy = self.synth, self.policy(bad_rows)

        def encode(table: object) -> Batch:
            found = synth.encode(table, bad_rows=policy)
            if policy != "quarantine":
                return replace(found, bad=())
            return found if isinstance(table, Lines) else replace(found, bad=tuple(row_texts(table, found.bad)))

        return encode

    def take(
        self,
        table: object,
        *,
        position: Mapping[str, Any] | None = None,
        bad_rows: str | None = None,
        receipts: bytes = b"",
    ) -> int:
        """Take a batch in order of arrival, all of it or nothing, and return how many records there are with it.

        When it returns, the batch is on the disk. Call `publish_if_due` afterwards.

        Parameters
        ----------
        table
            Any kind of table that the schema reads, or a `Batch` that was encoded before, here or elsewhere. One with
            anything wrong in it is refused whole. If its records were counted to be taken at once (``until``), no
            release may be due before the last of them (`next_due`).
        position
            Named JSON values that are kept in the same transaction, such as an offset in a file, the offsets of a
            topic, or an idempotency key. Names that are not given stay as they are; ``None`` removes one. ``tally``,
            ``quarantine`` and ``bad_rows`` are refused: these the run keeps itself.
        bad_rows
            What happens to invalid rows (`headwater.public.tally`): ``"stop"``, ``"null"`` or
            ``"quarantine"``. Unless given, what the schema says; ``"stop"`` if it says nothing.
        receipts
            Bytes that `receipts` gives back, kept in the same transaction.
        """
        kept = own_position(position)
        batch = table if isinstance(table, Batch) else self.encode(table, bad_rows=bad_rows)
        with self._turn:
            checked = self.synth.checked(batch, self.t)  # before the step: what is wrong leaves everything as it is
            if checked.until is not None and (self.next_due or checked.until) < checked.until:
                raise ValueError("a release is due inside records that were counted to be taken at once")
            with self._step():
                first, self._journal_stays = self.t, False
                checked = replace(checked, tally=Tally(), bad=())
                self._keep(checked, kept | self._of_bad_rows(batch), receipts)
                if checked.records:
                    self._pending.append((first, checked))
                self._count()
                self._snapshot_if_large()
                return first + checked.records

    def _keep(self, batch: Batch | None, position: dict[str, Any], receipts: bytes = b"") -> None:
        if self._state:
            self._state.append(batch, position, receipts)
        else:
            self._positions |= position

    def keep_position(self, position: Mapping[str, Any]) -> None:
        """Keep positions without records, such as that a file was read to its end.

        Parameters
        ----------
        position
            As for `take`.
        """
        with self._step():
            self._keep(None, own_position(position))

    def _count(self) -> None:
        """Count what is pending, up to the next release that is due."""
        until, t = self.t, self.synth.t
        while t < until and not self._is_due(t):
            t = min(self.schedule.next_due(t) or until, until)
        while self._pending and self.synth.t < t:
            first, batch = self._pending[0]
            try:
                if self.synth.t < first + batch.records:  # an interrupt may have come just after they were counted
                    self.synth.take(between(first, batch, self.synth.t, t))
            except (TypeError, ValueError) as error:
                raise (
                    damaged(self._state.path, "its journal does not hold records") if self._state else error
                ) from error
            with suppress(StoreError):  # the records are kept; it is tried again before anything is shown
                self._keep_measured(moment=False)  # also what only decides what is measured next
            if self.synth.t >= first + batch.records:
                self._pending.pop(0)

    @contextmanager
    def _step(self) -> Iterator[None]:
        """One step of one thread. After an error memory is discarded, unless it is known to be that of the state."""
        with self._turn:
            try:
                yield
            except StoreError:  # such as a full disk: a service may try again without reading everything
                if not self._is_current():
                    self._forget()
                raise
            except BaseException:
                self._forget()
                raise

    def _is_current(self) -> bool:
        try:
            return not self._state or self._state.t == self.t
        except StoreError:
            return False

    def _forget(self) -> None:
        if self._state:  # without one, a synthesizer itself undoes what was half done
            self._synth, self._pending = None, []

    def _snapshot_if_large(self) -> None:
        if self._state and not self._pending and not self._journal_stays and self._state.outgrown:
            with suppress(StoreError):
                self._state.snapshot(self.synth.t, self.synth.to_bytes())

    # ---- bad rows

    def _of_bad_rows(self, batch: Batch) -> dict[str, Any]:
        """What is to be kept of the bad rows of a batch, with it: the tally, and how long their file is then."""
        kept = dict[str, Any]()
        if batch.tally.bad or batch.tally.columns or self.position(TALLY):
            before = self.position(TALLY)
            kept[TALLY] = ((Tally.from_dict(before) if before else Tally(self.t)) + batch.tally).to_dict()
        if batch.bad and self.quarantine:
            known = self.position(QUARANTINE) or 0
            size = self.quarantine.stat().st_size if self.quarantine.exists() else 0
            if size < known:  # somebody has taken it away: begin anew, and note that before anything is written
                known = size
                self._keep(None, {QUARANTINE: known})
            kept[QUARANTINE] = quarantined(self.quarantine, batch.bad, self.t, known)
        return kept

    # ---- releases out: measure once and keep, then show

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

    def _is_due(self, t: int) -> bool:
        return self.schedule.is_due(t) and t not in self._published

    def _is_timely(self, now: float | None) -> bool:
        if now is None or self.schedule.seconds is None:
            return False
        if self._last_clock is None:
            self._last_clock = now
        return now - self._last_clock >= self.schedule.seconds

    def _publish_due(self, now: float | None = None) -> None:
        while True:
            with self._turn:
                with self._step():
                    self._count()
                t, timely = self.synth.t, self._is_timely(now)
                due = self._is_due(t)
                if not due and not (timely and t > 0 and t not in self._published):
                    if timely:
                        self._last_clock = now
                    self._snapshot_if_large()
                    return
                begun = self._begin_all()
            self._unreported.append(self._publish(begun))
            if not due:
                self._last_clock = now  # and not before: what failed is tried again at once

    def publish(self) -> Published | None:
        """Publish the release of this moment, unless that was done before or nothing has come yet."""
        with self._publishing:
            self._publish_due()
            with self._turn:
                t = self.synth.t
                begun = None if t == 0 or t in self._published else self._begin_all()
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
            return self._show(sink, self._begin(sink.location, last, since))

    def release(self, *, last: int | None = None, since: int | None = None) -> Release:
        """The release of this moment, all of it or a window, to be shown without a sink. Costs no further ε.

        Parameters
        ----------
        last
            Only about the last so many records.
        since
            Only about the records after the first so many.
        """
        return self._begin(None, last, since)()

    def measure(self) -> None:
        """Measure what this moment shows, and keep it: so other processes see this moment.

        A mechanism without windows measures whole releases at a time: of it they see what was published.
        """
        with self._step():
            self._count()
            if self.synth.t and self.synth.has_windows:
                self.synth.measured()
                self._keep_measured()

    def _keep_measured(self, *, moment: bool = True) -> None:
        if self._state and self._measured:
            self._measured.keep(self.synth, self._in_force, moment=moment)
            if self._measured.mark != tuple(self._state.noted("measured") or ()):
                self._state.note(measured=self._measured.mark)

    def _begin(self, location: str | None, last: int | None = None, since: int | None = None) -> Callable[[], Release]:
        with self._turn:
            with self._step():
                self._count()  # after an error in a step, what was kept is counted again first
            make, policy = self.synth.begin_release(last=last, since=since), self._in_force
            with self._step():
                self._keep_measured()
                if self._state and location and location not in (sinks := self._state.noted("sinks") or []):
                    self._state.note(sinks=[*sinks, location])

        def stating() -> Release:
            found = make()
            return replace(found, facts=replace(found.facts, schema=stated(found.schema, policy)))

        return stating

    def _begin_all(self) -> list[tuple[Sink, Callable[[], Release]]]:
        return [(sink, self._begin(sink.location, last)) for last, sink in (*self.windows.items(), (None, self.sink))]

    def _publish(self, begun: list[tuple[Sink, Callable[[], Release]]]) -> Published:
        """Hand a release to the sink, its windows before it, and write down that all of them are there."""
        published = [self._show(sink, make) for sink, make in begun][-1]
        if self._state:
            self._state.published(published.t, published.sha256)
        self._published.add(published.t)
        return published

    def _show(self, sink: Sink, make: Callable[[], Release]) -> Published:
        """Publish; what an earlier process may have made of the same measurements stays, whatever its rounding."""
        release = make()
        there = sink.there(release, self.run_id) if release.t in self._before else None
        return there or sink.publish(release, self.run_id)
