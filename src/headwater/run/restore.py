"""How a run begins or goes on: from a state back to a synthesizer, with every check before the first record."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwater.public.protocol import Span
from headwater.public.tally import BadRow, Tally
from headwater.run.config import RunConfig
from headwater.run.lock import COPIED, StateCopiedError, StoreError, damaged
from headwater.run.measured import MeasuredFile, all_kept, frames, measured_beside
from headwater.run.sink import Sink, newest
from headwater.run.state import State
from headwater.secret.batch import Batch
from headwater.secret.held import cut
from headwater.secret.noise import warn_of_seed
from headwater.synthesizer import Synthesizer

TALLY, QUARANTINE, POLICY = "tally", "quarantine", "bad_rows"
"""Names under which a run keeps what it says of bad rows, beside the positions of sources."""
Pending = list[tuple[int, Batch]]
"""Records that are kept and not yet counted, each with how many came before it."""


def state_beside(out: Path) -> Path:
    """Where the state of a run is that publishes into a folder, unless somebody says otherwise."""
    folder = out.resolve() if out.name in ("", "..") else out
    return folder.with_name(f"{folder.name}.state")


def restored(state: State) -> tuple[Synthesizer, Pending, MeasuredFile]:
    """The synthesizer of the last snapshot, which knows what was measured, and what is to be counted on top of it."""
    t, data, journal = state.load()
    if not data:  # killed before the first snapshot: nothing was taken or published
        if journal:
            raise damaged(state.path, "it has records and no snapshot")
        synth = RunConfig.from_dict(state.config).synthesizer()
        state.snapshot(0, synth.to_bytes())
    else:
        synth = Synthesizer.from_bytes(data)
    if synth.t != t:
        raise damaged(state.path, "its snapshot is of another time than it says")
    if state.config.get("seed") is not None:
        warn_of_seed(3)
    measured = MeasuredFile(measured_beside(state.path), synth.run_id, state.noted("measured"))
    synth.know(measured.kept)  # and is never measured again
    measured.kept = {}  # the synthesizer drops what no release needs any more
    return synth, journal, measured


def read_state(path: Path) -> tuple[Synthesizer, Tally]:
    """The synthesizer of a run that has stopped, and its tally, to look at: nothing is measured with it."""
    with State.open(path, observe=True) as state:
        _, data, journal = state.load()
        if not data:
            raise StoreError(path, "this run has not begun yet", "give the command that was to begin it again")
        synth = Synthesizer.from_bytes(data)
        synth.know(all_kept(frames(measured_beside(state.path))))
        try:
            for _, batch in journal:
                synth.take(batch)
        except (TypeError, ValueError) as error:
            raise damaged(path, "its journal does not hold records") from error
        kept = state.position(TALLY)
        return synth, (Tally.from_dict(kept) if kept else Tally(synth.t)).with_capped(synth.capped, synth.t)


def between(first: int, batch: Batch, start: int, end: int) -> Batch:
    """The records of a batch from number ``start`` on, before number ``end``; all if they are to be taken at once."""
    if batch.until is not None or (start <= first and first + batch.records <= end):
        if start > first:
            raise ValueError("a part of records that were counted to be taken at once")
        return batch
    spans = (Span(first, start), Span(start, end), Span(end, first + batch.records))
    for part in cut(batch, first, lambda number: next(span for span in spans if span.start <= number < span.end)):
        if part.start == start:
            return Batch(part.rows, part.counts)
    raise ValueError("these records are not in the batch")


def own_position(position: Mapping[str, Any] | None) -> dict[str, Any]:
    found = dict(position or {})
    for name in (TALLY, QUARANTINE, POLICY):
        if name in found:
            raise ValueError(f"the run itself keeps something under {name!r}: give the position another name")
    return found


def quarantined(path: Path, rows: Sequence[BadRow], t: int, size: int) -> int:
    """Bring bad rows to the disk behind the first ``size`` bytes of their file; how long it is then."""
    lines = []
    for bad in rows:
        said = {"record": t + bad.row + 1, "file": bad.error.file, "line": bad.error.line}
        said |= {"column": bad.error.column, "problem": bad.error.problem, "text": bad.text}
        lines.append(json.dumps(said) + "\n")
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "r+b") as file:
            os.fchmod(handle, 0o600)
            file.truncate(size)
            file.seek(size)
            file.write("".join(lines).encode())
            file.flush()
            os.fsync(handle)
            return file.tell()
    except OSError as error:
        problem = f"bad rows cannot be written to it ({error.strerror})"
        raise StoreError(path, problem, "see to the cause, then give the same command again") from None


def refuse_measured(state: Path) -> None:
    """Before a new run: what another one has measured is never written over, for its state may come back."""
    if (path := measured_beside(state)).exists():
        problem = "this was measured by a run whose state is not next to it any more"
        raise StoreError(path, problem, "move it to where that state is, or remove it if that state is gone")


@contextmanager
def kept_open(state: State) -> Iterator[State]:
    """A state that is closed after an error."""
    try:
        yield state
    except BaseException:
        state.close()
        raise


def refuse_older(state: State, sinks: Sequence[Sink], run_id: str, measured: MeasuredFile) -> None:
    """Refuse a state that is behind what its run has measured or published: that was of records that were kept."""
    found = {place.location: place.newest(run_id) for place in sinks}
    found |= {one: newest(one, run_id) for one in state.noted("sinks") or () if one not in found}
    found[str(measured.path)] = max(measured.moments, default=0)
    for location, t in found.items():
        if t > state.t:
            problem = (
                f"an older version of this state was put back: {location} holds what was made of {t:,} "
                f"records, and this state has taken {state.t:,}"
            )
            raise StateCopiedError(state.path, problem, COPIED)


def check_windows(synth: Synthesizer, windows: Mapping[int, Sink]) -> None:
    for last in windows:
        if last < 1:
            raise ValueError(f"a window must hold at least 1 record, not {last}")
    if windows and not synth.has_windows:
        raise ValueError(f"mechanism={synth.mechanism!r} has no windows; leave them out, or choose another mechanism")
