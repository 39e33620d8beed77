"""What a run has measured, in a file beside its state that holds only what is public.

Whatever was measured is written here before any release shows it. A run that goes on reads it and never measures it
again; any other process makes releases and windows from it, with neither the key nor the records, and without asking
the run's owner.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from headwater.public import protocol as registry
from headwater.public.budget import Budget, Guarantee
from headwater.public.files import FileRefusedError, assembling, pack, sync, unpack
from headwater.public.protocol import Facts, Kept, Span
from headwater.public.release import Release, release_seed, run_id
from headwater.public.schema import schema_from_dict
from headwater.public.tally import stated
from headwater.run.lock import StoreError, plain_errors
from headwater.secret.mechanism import mechanism_class
from headwater.secret.noise import Noise
from headwater.synthesizer import Synthesizer

BANNER = "headwater measured 1: public, every number in it may be published"


_CHANGING = ("t", "noise", "kind")
"""Facts that every frame says; the others are in the first."""


def measured_beside(state: Path) -> Path:
    return state.with_name(state.name + ".measured")


@dataclass(frozen=True)
class Moment:
    """A moment that was kept: how many records there were, and what everybody may know of the run then."""

    t: int
    kept: Kept
    facts: dict[str, Any]

    @classmethod
    def read(cls, path: Path, t: int | None = None) -> Self:
        """The last moment that a file holds, or the last one of at most ``t`` records."""
        moments, kept = [one for one in frames(path) if t is None or one.facts["t"] <= t], dict[Span, Any]()
        if not moments:
            raise FileRefusedError(f"{path}: nothing has been measured yet")
        for one in moments:
            kept |= one.kept
        return cls(moments[-1].t, kept, moments[-1].facts)

    @property
    def run_id(self) -> str:
        return run_id(bytes.fromhex(self.facts["public"]))

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(**self.facts["guarantee"])

    def status(self) -> dict[str, str]:
        """The run in words, by name."""
        return status_of(self.facts)

    def plan(self) -> object:
        """The buckets and budgets to come, to be printed."""
        facts = self.facts
        schema, budget = schema_from_dict(facts["schema"]), Budget(**facts["budget"])
        mechanism = mechanism_class(facts["mechanism"])(schema, budget, Noise(seed=0), facts["expect"])
        return mechanism.plan(max(2 * self.t, 1))  # nothing is measured with it

    def release(self, *, last: int | None = None, since: int | None = None) -> Release:
        """The release of this moment, all of it or a window: the same as the run itself would publish."""
        facts = self.facts
        schema, budget, public = schema_from_dict(facts["schema"]), Budget(**facts["budget"]), facts["public"]
        left = max(self.t - last, 0) if last is not None else since or 0
        measured = registry.measured(facts["mechanism"]).of(self.kept, schema, budget, self.t).after(left)
        seed = release_seed(bytes.fromhex(public), self.t, measured.start)
        model = registry.model(facts["mechanism"]).fit(measured, schema, seed)
        known = Facts(self.t, self.guarantee, stated(schema, facts["bad_rows"]), facts["mechanism"], facts["noise"])
        return Release(known, measured.start, model, seed, facts["kind"])


def status_of(facts: Mapping[str, Any]) -> dict[str, str]:
    """What everybody may know of a run (`Synthesizer.facts`), in words by name."""
    schema = schema_from_dict(facts["schema"])
    rows = {
        "records": f"{facts['t']:,}",
        "guarantee": str(Guarantee(**facts["guarantee"])),
        "mechanism": facts["mechanism"],
        "chosen": registry.reason(facts["mechanism"], schema),
        "schema": str(schema),
    }
    return rows if facts["expect"] is None else rows | {"expect": f"{facts['expect']:,} records"}


def frames(path: Path) -> list[Moment]:
    """All whole frames of a file; what a kill has left half-written at its end is no frame."""
    return [moment for moment, _ in _frames(path)]


def _frames(path: Path) -> list[tuple[Moment, int]]:
    data = path.read_bytes() if path.exists() else b""
    found, at, known = list[tuple[Moment, int]](), 0, dict[str, Any]()
    while at + 8 <= len(data):
        end = at + 8 + int.from_bytes(data[at : at + 8], "little")
        if end > len(data):
            break
        with assembling(str(path)):
            header, arrays = unpack(data[at + 8 : end], BANNER, str(path))
            layout, known = header.pop("kept"), known | header
            measured = registry.measured(known["mechanism"])
            kept = measured.unpack(layout, arrays, schema_from_dict(known["schema"])) if layout else {}
        found.append((Moment(known["t"], kept, known), end))
        at = end
    return found


class MeasuredFile:
    """The file as the owner of the run writes it: one frame for each moment that is kept."""

    def __init__(self, path: Path, size: int) -> None:
        """Open it, of which the state knows that it has at least ``size`` bytes."""
        self.path, self.size, self.t = path, 0, 0
        self.kept: dict[Span, Any] = {}
        with plain_errors(path):
            found = _frames(path) if path.exists() else []
        for moment, end in found:
            self.kept |= moment.kept
            self.size, self.t = end, moment.t
        if self.size < size:
            problem = "what this run has measured and published is missing, and measuring it again would show more"
            raise StoreError(path, problem, "put the file back from where it was moved, or begin a new run")

    def keep(self, synth: Synthesizer, bad_rows: str | None) -> int:
        """Bring to the disk whatever was measured until now; how long the file is then."""
        kept = {span: one for span, one in synth.kept().items() if span not in self.kept}
        if not kept and synth.t == self.t and self.size:
            return self.size
        layout, arrays = registry.measured(synth.mechanism).pack(kept) if kept else (None, {})
        facts = {name: fact for name, fact in synth.facts().items() if not self.size or name in _CHANGING}
        frame = pack(BANNER, {**facts, "bad_rows": bad_rows, "kept": layout}, arrays)
        with plain_errors(self.path), _opened(self.path) as file:
            file.truncate(self.size)  # what a kill has left half-written
            file.seek(self.size)
            file.write(len(frame).to_bytes(8, "little") + frame)
            file.flush()
            os.fsync(file.fileno())
            if not self.size:
                sync(self.path.parent)
        self.kept, self.t, self.size = self.kept | kept, synth.t, self.size + 8 + len(frame)
        return self.size


def _opened(path: Path) -> io.BufferedRandom:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o644), "r+b")
