"""What everybody can see of a run: a value for each feature, taken from everything that a user can publish."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwater.public import files, protocol
from headwater.public.folder import card_of, publish, read_card
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.synthesizer import Synthesizer

Value = float | int | str | bool | None
View = dict[str, Value]


class AuditAlarm(AssertionError):  # noqa: N818 - nothing has gone wrong with the auditor
    """Something that is published depends on raw data more than was paid for."""


def of_release(at: str, release: Release, places: NDArray[np.float64]) -> View:
    """The model near the replaced point, the points nearest to it, and all that the card says but the key's digest."""
    seen: View = {f"{at} {name}": value for name, value in release.model.near(places).items()}
    points = release.points()
    for name, place in zip("ab", places, strict=True):
        seen[f"{at} nearest to {name}"] = float(np.abs(points - place).max(axis=1).min(initial=math.inf))
    expected = release.expected_error()
    seen |= {f"{at} card typical error": expected.typical, f"{at} card upper error": expected.upper}
    facts = {
        "t": (release.t, release.span, release.model.records),
        "guarantee": release.guarantee.to_dict(),
        "mechanism": release.mechanism,
        "model": {name: str(value) for name, value in release.model.state()[0].items()},
        "bound": asdict(release.error_bound),
        "schema": release.schema.to_dict(),
        "words": str(release),
    }
    return seen | {f"{at} card, all else": json.dumps(facts, default=str)}


def of_files(at: str, release: Release) -> View:
    """The saved release, byte by byte, and the whole card: of its table, or for a cube of itself. No time is in it."""
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "release.hw"
        release.save(saved)
        data = saved.read_bytes()
        seen: View = {f"{at} file size": len(data), f"{at} file": hashlib.sha256(data).hexdigest()}
        table = isinstance(release.schema, Schema)
        card = read_card(publish(release, folder, format="csv")) if table else card_of(release, saved)
    return seen | {f"{at} card.json {name}": json.dumps(value) for name, value in card.items() if name != "time"}


def of_kept(at: str, synth: Synthesizer) -> View:
    """All that was measured until now, as it is written down for everybody, and the facts beside it."""
    kept = synth.state.mechanism.kept()
    data = files.pack("kept", *protocol.measured(synth.mechanism).pack(kept)) if kept else b""
    return {f"{at} kept": hashlib.sha256(data).hexdigest(), f"{at} facts": json.dumps(synth.state.facts(), default=str)}
