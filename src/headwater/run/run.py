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
from headwater.run.config import RunConfig, Schedule
from headwater.run.lock import COPIED, StateCopiedError, StoreError, damaged
from headwater.run.measured import MeasuredFile, measured_beside
from headwater.run.restore import TALLY, check_windows, closed_after_an_error, from_state, quarantined, tally_of
from headwater.run.sink import Published, Sink, newest
from headwater.run.state import State
from headwater.secret.batch import Batch
from headwater.secret.held import between
from headwater.secret.noise import warn_of_seed
from headwater.secret.read.batch import Batch as Lines
from headwater.synthesizer import Synthesizer

QUARANTINE, POLICY, READING = "quarantine", "bad_rows", "reading"
_OWN = TALLY, QUARANTINE, POLICY, READING
"""Names under which a run keeps what it says of bad rows, beside the positions of sources."""


class Run:
    """One run: what it has taken, what it keeps, what it has published. Made by `open`; threads may share it.

    It has no clock, reads no files of records and starts no thread: `headwater.run.feed` does, or a service.

    Parameters
    ----------
    state
        What keeps the run: `open` and `resume` make it.
    sink
        Where releases go.
    schedule
        When `publish_if_due` publishes.
    windows
        For numbers of last records, where windows of them go, with every release.
    synth
        Of a new run, its synthesizer.

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
        state: State,
        sink: Sink,
        schedule: Schedule,
        windows: Mapping[int, Sink],
        synth: Synthesizer | None = None,
    ) -> None:
        self.sink, self.schedule, self.windows = sink, schedule, windows
        self._state, self._pending = state, list[tuple[int, Batch]]()  # kept and not yet counted, from which number on
        self._measured: MeasuredFile | None = None
        self._turn = threading.RLock()  # for whatever must see one moment: no other thread takes or counts meanwhile
        self._publishing = threading.RLock()  # one release at a time; records may be taken meanwhile
        self._synth = synth  # None after an error in a step
        if state.path is not None:
            self._measured = self._read()
        self.schema, self.epsilon = self.synth.schema, self.synth.epsilon
        self.run_id, self.guarantee = self.synth.run_id, self.synth.guarantee
        self._before = self._measured.moments if self._measured else frozenset[int]()  # before this process began
        self._published = set(state.releases())
        self._journal_stays = False
        self._last_clock: float | None = None  # at the last release that the clock made due
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
        how = sink, schedule, windows or {}
        if state is not None and state.exists():
            with closed_after_an_error(State.open(state, allow_copy=allow_copy)) as found:
                if found.t or found.releases() or not config.different(found.config):
                    config.refuse_other(state, found.config)
                    run = cls(found, *how)._going_on(allow_copy=allow_copy)
                    run.read_as(getattr(config.schema, "reading", {}))
                    return run
                measured_beside(state).unlink(missing_ok=True)
                state.unlink()  # a run that never took a record
                found.close()
        synth = config.synthesizer()
        check_windows(synth, how[2])
        for place in (sink, *how[2].values()):
            place.begin(synth.run_id)
        if state is None:
            return cls(State(), *how, synth)
        if (measured := measured_beside(state)).exists():  # never written over, for its state may come back
            problem = "this was measured by a run whose state is not next to it any more"
            raise StoreError(measured, problem, "move it to where that state is, or remove it if that state is gone")
        with closed_after_an_error(State.create(state, config.to_dict(), synth.to_bytes())) as found:
            return cls(found, *how)

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
        with closed_after_an_error(State.open(state, allow_copy=allow_copy)) as found:
            run = cls(found, sink, Schedule(), {})
            run._journal_stays = found.has_journal
            return run._going_on(allow_copy=allow_copy)

    def _going_on(self, *, allow_copy: bool) -> Self:
        """The same, after every check before the first record."""
        if self._state.config.get("seed") is not None:
            warn_of_seed(3)
        check_windows(self.synth, self.windows)
        sinks = self.sink, *self.windows.values()
        if not allow_copy:
            self._refuse_older(sinks)
        for place in sinks:
            place.begin(self.run_id)
        with self._step():
            self._count()
        return self

    def _refuse_older(self, sinks: Sequence[Sink]) -> None:
        """Refuse a state that is behind what its run has measured or published: that was of records that were kept."""
        found = {place.location: place.newest(self.run_id) for place in sinks}
        found |= {one: newest(one, self.run_id) for one in self._state.noted("sinks") or () if one not in found}
        if self._measured:
            found[str(self._measured.path)] = max(self._measured.moments, default=0)
        for location, t in found.items():
            if t > self._state.t:
                problem = (
                    f"an older version of this state was put back: {location} holds what was made of {t:,} "
                    f"records, and this state has taken {self._state.t:,}"
                )
                raise StateCopiedError(self._state.path or "", problem, COPIED)

    def close(self) -> None:
        """Leave a snapshot, from which a run goes on faster, and release the state."""
        with self._publishing, self._turn:
            with suppress(Exception):  # whatever was wrong has been said; a journal is as good
                self._snapshot_if(self._state.has_journal)
            self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what is known of it

    @property
    def state(self) -> Path | None:
        """The file that keeps the run, if there is one. Secret."""
        return self._state.path

    @property
    def synth(self) -> Synthesizer:
        """The synthesizer. It may be behind `t` until `publish_if_due` was called."""
        with self._turn:
            if self._synth is None:
                self._measured = self._read()
            assert self._synth is not None  # noqa: S101 - it was read
            return self._synth

    def _read(self) -> MeasuredFile:
        """Read from the state the synthesizer of the last snapshot, and what is to be counted on top of it."""
        assert self._state.path is not None  # noqa: S101 - only then is it forgotten
        synth, self._pending = from_state(self._state)
        measured = MeasuredFile(measured_beside(self._state.path), synth.run_id, self._state.noted("measured"))
        synth.know(measured.kept)  # and is never measured again
        measured.kept = {}  # the synthesizer drops what no release needs any more
        self._synth = synth  # last: an interrupt before this line leaves it forgotten
        return measured

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
        return tally_of(self._state, self.synth)

    @property
    def quarantine(self) -> Path | None:
        """Where bad rows go under ``bad_rows="quarantine"``; None without a state."""
        path = self._state.path
        return path.with_name(path.name + ".bad-rows.jsonl") if path else None

    def position(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """The last value that `take` has kept under a name, in memory only if there is no state; ``None`` if none was.

        Parameters
        ----------
        name
            As given to `take`.
        """
        return self._state.position(name)

    def receipts(self) -> list[bytes]:
        """What `take` has kept as receipts, oldest first; very old ones are forgotten."""
        return self._state.receipts()

    # ---- records in: keep, then count

    def policy(self, bad_rows: str | None = None) -> str:
        """What happens to bad rows from now on; unless given, what the schema says. Releases state it: public."""
        policy = policy_of(bad_rows, self.schema)
        if policy == "quarantine" and not self.quarantine:
            raise ValueError("bad rows can be put in quarantine only with a state; use bad_rows='null' without one")
        if policy != (self._in_force(POLICY) or "stop"):
            with self._step():
                self._state.append(None, {POLICY: policy})
        return policy

    def read_as(self, reading: Mapping[str, Any]) -> None:
        """Say how records are read from now on (`Schema.with_reading`): cards say what was in force."""
        if dict(reading) != dict(self._in_force(READING) or {}):
            with self._step():
                self._state.append(None, {READING: dict(reading)})

    def _in_force(self, name: str) -> Any:  # noqa: ANN401 - of the policy or the reading
        """What was said last, or is declared: the names are those of a schema."""
        found = self._state.position(name)
        return getattr(self.schema, name, None) if found is None else found

    def encode(self, table: object, *, bad_rows: str | None = None) -> Batch:
        return self.encoder(bad_rows)(table)

    def encoder(self, bad_rows: str | None = None) -> Callable[[object], Batch]:
        """`encode` for another thread: it does not wait while records are counted, for it uses none of them."""
        state, policy = self.synth.state, self.policy(bad_rows)

        def encode(table: object) -> Batch:
            found = state.encode(table, policy)
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
        kept = _own(position)
        batch = table if isinstance(table, Batch) else self.encode(table, bad_rows=bad_rows)
        with self._turn:
            first = self.t
            checked = self.synth.state.checked(batch, first)  # what is wrong leaves everything as it is
            if checked.until is not None and (self.next_due or checked.until) < checked.until:
                raise ValueError("a release is due inside records that were counted to be taken at once")
            with self._step():
                self._journal_stays = False
                checked = replace(checked, tally=Tally(), bad=())
                self._state.append(checked, kept | self._of_bad_rows(batch, first), receipts)
                if checked.records:
                    self._pending.append((first, checked))
                self._count()
                with suppress(StoreError):  # it is kept as it is
                    self._snapshot_if(self._state.outgrown)
                return first + checked.records

    def keep_position(self, position: Mapping[str, Any]) -> None:
        with self._step():
            self._state.append(None, _own(position))

    def _count(self) -> None:
        """Count what is pending, up to the next release that is due."""
        synth, until = self.synth, self.t
        end = synth.t
        while end < until and not self._is_due(end):
            end = min(self.schedule.next_due(end) or until, until)
        while self._pending and synth.t < end:
            first, batch = self._pending[0]
            try:
                if synth.t < first + batch.records:  # an interrupt may have come just after they were counted
                    synth.take(between(first, batch, synth.t, end))
            except (TypeError, ValueError) as error:
                path = self._state.path
                raise (damaged(path, "its journal does not hold records") if path else error) from error
            with suppress(StoreError):  # the records are kept; it is tried again before anything is shown
                self._keep_measured(moment=False)  # also what only decides what is measured next
            if synth.t >= first + batch.records:
                self._pending.pop(0)

    @contextmanager
    def _step(self) -> Iterator[None]:
        """One step of one thread. After an error memory is discarded, unless it is known to be that of the state."""
        with self._turn:
            try:
                yield
            except BaseException as error:
                # After such as a full disk a service may try again without reading everything.
                current = isinstance(error, StoreError) and self._is_current()
                if not current and self._state.path:  # without one, a synthesizer itself undoes what was half done
                    self._synth, self._pending = None, []
                raise

    def _is_current(self) -> bool:
        try:
            return self._state.t == self.t
        except StoreError:
            return False

    def _snapshot_if(self, wanted: bool) -> None:
        if wanted and self._state.path and not self._pending and not self._journal_stays:
            self._state.snapshot(self.synth.t, self.synth.to_bytes())

    # ---- bad rows

    def _of_bad_rows(self, batch: Batch, t: int) -> dict[str, Any]:
        """What is to be kept of the bad rows of a batch, with it: the tally, and how long their file is then."""
        kept, before = dict[str, Any](), self._state.position(TALLY)
        if batch.tally.bad or batch.tally.columns or before:
            kept[TALLY] = ((Tally.from_dict(before) if before else Tally(t)) + batch.tally).to_dict()
        if batch.bad and (path := self.quarantine):
            known = self._state.position(QUARANTINE) or 0
            size = path.stat().st_size if path.exists() else 0
            if size < known:  # somebody has taken it away: begin anew, and note that before anything is written
                known = size
                self._state.append(None, {QUARANTINE: known})
            kept[QUARANTINE] = quarantined(path, batch.bad, t, known)
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
        return t > 0 and self.schedule.next_due(t - 1) == t and t not in self._published

    def _publish_due(self, now: float | None = None, *, at_once: bool = False) -> int:
        """Publish what is due, or at once whatever there is; returns the number of records that this has seen."""
        while True:
            with self._turn:
                with self._step():
                    self._count()
                t, timely = self.synth.t, at_once
                if now is not None and self.schedule.seconds is not None:
                    self._last_clock = now if self._last_clock is None else self._last_clock
                    timely = now - self._last_clock >= self.schedule.seconds
                due = self._is_due(t)
                if not due and not (timely and t > 0 and t not in self._published):
                    self._last_clock = now if timely and not at_once else self._last_clock
                    with suppress(StoreError):
                        self._snapshot_if(self._state.outgrown)
                    return t
                begun = [(sink, self._begin(sink, last)) for last, sink in (*self.windows.items(), (None, self.sink))]
            published = [self._show(sink, make) for sink, make in begun][-1]  # windows before it
            self._state.published(published.t, published.sha256)  # all of them are there
            self._published.add(published.t)
            self._unreported.append(published)
            if at_once and not due:
                return t
            if not due:
                self._last_clock = now  # and not before: what failed is tried again at once

    def publish(self) -> Published | None:
        """Publish the release of this moment, unless that was done before or nothing has come yet."""
        with self._publishing:
            t = self._publish_due(at_once=True)
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
            return self._show(sink, self._begin(sink, last, since))

    def release(self, *, last: int | None = None, since: int | None = None) -> Release:
        """The release of this moment, all of it or a window, to be shown without a sink. Costs no further ε."""
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
        if self._measured:
            self._measured.keep(
                self.synth.state, self._in_force(POLICY), dict(self._in_force(READING) or {}), moment=moment
            )
            if self._measured.mark != self._state.noted("measured"):
                self._state.note(measured=self._measured.mark)

    def _begin(self, sink: Sink | None, last: int | None = None, since: int | None = None) -> Callable[[], Release]:
        with self._turn, self._step():
            self._count()  # after an error in a step, what was kept is counted again first
            make = self.synth.begin_release(last=last, since=since)
            policy, reading = self._in_force(POLICY), dict(self._in_force(READING) or {})
            self._keep_measured()
            if sink and self._state.path and sink.location not in (sinks := self._state.noted("sinks") or []):
                self._state.note(sinks=[*sinks, sink.location])

        def stating() -> Release:
            found = make()
            return replace(found, facts=replace(found.facts, schema=stated(found.schema, policy, reading)))

        return stating

    def _show(self, sink: Sink, make: Callable[[], Release]) -> Published:
        """Publish; what an earlier process may have made of the same measurements stays, whatever its rounding."""
        release = make()
        there = sink.there(release, self.run_id) if release.t in self._before else None
        return there or sink.publish(release, self.run_id)


def _own(position: Mapping[str, Any] | None) -> dict[str, Any]:
    if names := [name for name in _OWN if name in (position or {})]:
        raise ValueError(f"the run itself keeps something under {names[0]!r}: give the position another name")
    return dict(position or {})
