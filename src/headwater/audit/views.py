"""What a reader of publications knows of one run: features, taken from everything that a user can publish."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np

from headwater.audit.events import Value
from headwater.public.card import read_card
from headwater.public.folder import card_of, publish
from headwater.public.partition import Points
from headwater.public.release import Release
from headwater.public.schema import Schema

View = dict[str, Value]
"""What is seen of a run: a value for each feature."""


def look_at_release(at: str, release: Release, places: Points) -> View:
    """The model near the replaced point, the points nearest to it, the card and the file."""
    seen: View = {f"{at} {name}": value for name, value in release.model.near(places).items()}
    points = release.points()
    for name, place in zip("ab", places, strict=True):
        near = np.abs(points - place).max(axis=1).min(initial=math.inf)
        seen[f"{at} nearest to {name}"] = float(near)
    facts = card_facts(release)
    for name in [name for name, value in facts.items() if isinstance(value, float)]:
        seen[f"{at} card {name}"] = facts.pop(name)  # type: ignore[assignment]
    seen[f"{at} card, all else"] = json.dumps(facts, default=str)
    return seen


def card_facts(release: Release) -> dict[str, object]:
    """All that a card or the header of a saved release says, except what is drawn anew for each run."""
    expected = release.expected_error()
    return {
        "t": release.t,
        "span": release.span,
        "rows": release.model.records,
        **release.guarantee.to_dict(),
        "mechanism": release.mechanism,
        "model": {name: str(value) for name, value in release.model.state()[0].items()},
        "typical error": expected.typical,
        "upper error": expected.upper,
        "error_bound": asdict(release.error_bound),
        "schema": release.schema.to_dict(),
        "words": str(release),
    }


def look_at_files(at: str, release: Release) -> View:
    """The saved release, byte by byte, and the whole card of a publication. Only the time is left out.

    The card names the hash of the table that is published; points of the unit cube are no table, so there it is the
    saved release's.
    """
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "release.hw"
        release.save(saved)
        data = saved.read_bytes()
        seen: View = {f"{at} file size": len(data), f"{at} file": hashlib.sha256(data).hexdigest()}
        table = isinstance(release.schema, Schema)
        card = read_card(publish(release, folder, format="csv")) if table else card_of(release, saved)
    return seen | {f"{at} card.json {name}": json.dumps(value) for name, value in card.items() if name != "time"}
