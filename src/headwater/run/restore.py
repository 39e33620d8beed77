"""How a run begins, goes on and is looked at: from its state back to a synthesizer; and the file of bad rows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from headwater.public.tally import BadRow, Tally
from headwater.run.frames import append
from headwater.run.lock import damaged, plain_errors
from headwater.run.measured import all_kept, frames, measured_beside
from headwater.run.sink import Sink
from headwater.run.state import State
from headwater.secret.batch import Batch
from headwater.synthesizer import Synthesizer

TALLY = "tally"
"""The name under which a run keeps how many rows were bad, beside the positions of sources."""


def read_state(path: Path) -> tuple[Synthesizer, Tally]:
    """The synthesizer of a run that has stopped, and its tally, to look at: nothing is measured with it."""
    with State.open(path, observe=True) as state:
        synth, journal = from_state(state)
        synth.know(all_kept(frames(measured_beside(state.path or path))))
        try:
            for _, batch in journal:
                synth.take(batch)
        except (TypeError, ValueError) as error:
            raise damaged(path, "its journal does not hold records") from error
        return synth, tally_of(state, synth)


def from_state(state: State) -> tuple[Synthesizer, list[tuple[int, Batch]]]:
    t, data, journal = state.load()
    synth = Synthesizer.from_bytes(data)
    if synth.t != t:
        raise damaged(state.path or Path(), "its snapshot is of another time than it says")
    return synth, journal


def tally_of(state: State, synth: Synthesizer) -> Tally:
    kept = state.position(TALLY)  # nothing is kept as long as all records are good
    return (Tally.from_dict(kept) if kept else Tally(synth.t)).with_capped(synth.capped, synth.t)


def quarantined(path: Path, rows: Sequence[BadRow], t: int, size: int) -> int:
    """Bring bad rows to the disk behind the first ``size`` bytes of their file; how long it is then."""
    lines = []
    for bad in rows:
        said = {"record": t + bad.row + 1, "file": bad.error.file, "line": bad.error.line}
        said |= {"column": bad.error.column, "problem": bad.error.problem, "text": bad.text}
        lines.append(json.dumps(said) + "\n")
    data = "".join(lines).encode()
    with plain_errors(path), open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b") as file:
        os.fchmod(file.fileno(), 0o600)
        append(file.fileno(), size, data)
    return size + len(data)


@contextmanager
def closed_after_an_error(state: State) -> Iterator[State]:
    try:
        yield state
    except BaseException:
        state.close()
        raise


def check_windows(synth: Synthesizer, windows: Mapping[int, Sink]) -> None:
    for last in windows:
        if last < 1:
            raise ValueError(f"a window must hold at least 1 record, not {last}")
    if windows and not synth.has_windows:
        raise ValueError(f"mechanism={synth.mechanism!r} has no windows; leave them out, or choose another mechanism")
