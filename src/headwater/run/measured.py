"""What a run has measured, in a file next to its state that holds only what is public.

Whatever was measured is written here before any release shows it. A run that goes on reads it and never measures it
again; any other process makes releases and windows from it, with neither the key nor the records, and without asking
the run's owner.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any, NamedTuple, Self

from headwater.public import protocol as registry
from headwater.public.budget import Budget, Guarantee
from headwater.public.files import FileRefusedError, assembling, write_whole
from headwater.public.protocol import Facts, Kept
from headwater.public.release import Release, made_of, release_seed, run_id
from headwater.public.schema import schema_from_dict
from headwater.public.tally import stated
from headwater.run.frames import append, framed, read_frames
from headwater.run.lock import StateDamagedError, StoreError, plain_errors
from headwater.secret.mechanism import mechanism_class
from headwater.secret.noise import Noise
from headwater.state import State, window_start

BANNER = "headwater measured 1: public, every number in it may be published"

_CHANGING = ("t", "noise", "kind", "bad_rows", "reading", "moment")
"""Facts that every frame says; the others are in the first."""


def measured_beside(state: Path) -> Path:
    state = Path(os.path.realpath(state))
    return state.with_name(state.name + ".measured")


@dataclass(frozen=True)
class Moment:
    """A moment that was kept: how many records there were, and what everybody may know of the run then."""

    kept: Kept
    facts: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> Self:
        found = frames(path)
        moments = [frame for frame in reversed(found) if frame.facts["moment"]]
        if not moments:
            raise FileRefusedError(f"{path}: nothing has been measured yet")
        return cls(all_kept(found), max(moments, key=lambda frame: frame.facts["t"]).facts)

    @property
    def t(self) -> int:
        t: int = self.facts["t"]
        return t

    @property
    def run_id(self) -> str:
        return run_id(bytes.fromhex(self.facts["public"]))

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(**self.facts["guarantee"])

    def plan(self) -> object:
        facts = self.facts
        schema, budget = schema_from_dict(facts["schema"]), Budget(**facts["budget"])
        mechanism = mechanism_class(facts["mechanism"])(schema, budget, Noise(seed=0), facts["expect"])
        return mechanism.plan(max(2 * self.t, 1))  # nothing is measured with it

    def release(self, *, last: int | None = None, since: int | None = None) -> Release:
        """The release of this moment, all of it or a window: the same as the run itself would publish."""
        facts = self.facts
        schema, budget = schema_from_dict(facts["schema"]), Budget(**facts["budget"])
        left = window_start(self.t, last, since)
        measured = registry.measured(facts["mechanism"]).of(self.kept, schema, budget, self.t).after(left)
        schema = stated(schema, facts["bad_rows"], facts["reading"])
        known = Facts(self.t, self.guarantee, schema, facts["mechanism"], facts["noise"])
        return made_of(
            measured, known, release_seed(bytes.fromhex(facts["public"]), self.t, measured.start), facts["kind"]
        )


def status_of(facts: Mapping[str, Any]) -> dict[str, str]:
    """What everybody may know of a run (`Synthesizer.facts`), in words by name."""
    rows = {
        "records": f"{facts['t']:,}",
        "guarantee": str(Guarantee(**facts["guarantee"])),
        "mechanism": facts["mechanism"],
        "chosen": registry.reason(facts["mechanism"], schema_from_dict(facts["schema"])),
    }
    return rows if facts["expect"] is None else rows | {"expect": f"{facts['expect']:,} records"}


class Frame(NamedTuple):
    """What was written at once: of which moment, what was measured since the frame before, and where it ends."""

    kept: Kept
    facts: dict[str, Any]
    end: int
    checksum: str


def frames(path: Path) -> list[Frame]:
    """All whole frames of a file, on the disk; what a kill has left half-written at its end is no frame."""
    data, found, facts = b"", list[Frame](), dict[str, Any]()
    with suppress(FileNotFoundError), open(path, "rb") as file:
        data = file.read()
        os.fsync(file.fileno())  # whoever reads what its owner is writing shows nothing that a loss of power undoes
    with assembling(str(path)):
        for header, arrays, end, checksum in read_frames(path, data, BANNER):
            layout, facts = header.pop("kept"), facts | header
            unpack = registry.measured(facts["mechanism"]).unpack
            kept = unpack(layout, arrays, schema_from_dict(facts["schema"])) if layout else {}
            found.append(Frame(kept, facts, end, checksum))
    return found


def all_kept(found: list[Frame]) -> Kept:
    return {span: one for frame in found for span, one in frame.kept.items()}


class MeasuredFile:
    """The file as the owner of the run writes it: one frame for each moment that is kept."""

    def __init__(self, path: Path, run: str, noted: Sequence[Any] | None) -> None:
        """Open it, of which the state may have noted where a frame ends, and its checksum."""
        self.path = path
        with plain_errors(path):
            if path.is_symlink():
                raise StoreError(path, "this is a symbolic link", "find out who made it, then remove it")
            for left in path.parent.glob(f".{escape(path.name)}.*"):  # by a kill amid the first frame
                left.unlink()
            try:
                found = frames(path)
            except FileRefusedError as error:
                remedy = "put back a backup of it, or begin a new run"
                raise StateDamagedError(path, "what this run has measured is damaged", remedy) from error
        if found and Moment({}, found[0].facts).run_id != run:
            raise StoreError(path, "this was measured by another run", "move it to where the state of that run is")
        if noted and tuple(noted) not in {(frame.end, frame.checksum) for frame in found}:
            raise self._missing()
        self.moments, self.kept = frozenset[int](frame.facts["t"] for frame in found), all_kept(found)
        self._written = set(self.kept)
        self._last, self._end = (found[-1].facts, found[-1].end) if found else ({}, 0)
        self.mark = [self._end, found[-1].checksum] if found else None

    def keep(self, state: State, bad_rows: str | None, reading: Mapping[str, Any], *, moment: bool = True) -> None:
        """Bring to the disk whatever was measured until now; as a moment, if all that it shows was measured."""
        kept = {span: one for span, one in state.mechanism.kept().items() if span not in self._written}
        if not (kept or moment):
            return
        facts = {**state.facts(), "bad_rows": bad_rows, "reading": reading, "moment": moment}
        if self._end and not kept and (state.t < self._last["t"] or all(facts[n] == self._last[n] for n in _CHANGING)):
            return
        layout, arrays = registry.measured(facts["mechanism"]).pack(kept) if kept else (None, {})
        said = {name: fact for name, fact in facts.items() if not self._end or name in _CHANGING}
        frame = framed(BANNER, {**said, "kept": layout}, arrays)
        with plain_errors(self.path):
            if self._end:
                with open(os.open(self.path, os.O_RDWR | os.O_NOFOLLOW), "r+b", buffering=0) as file:
                    if os.fstat(file.fileno()).st_size < self._end:
                        raise self._missing()
                    append(file.fileno(), self._end, frame)
            else:
                write_whole(self.path, [frame], mode=0o644)
        self._written |= kept.keys()
        self._last, self._end = facts, self._end + len(frame)
        self.mark = [self._end, frame[-32:].hex()]

    def _missing(self) -> StoreError:
        problem = "what this run has measured and published is missing, and measuring it again would show more"
        return StoreError(self.path, problem, "put the file back from where it was moved, or begin a new run")
