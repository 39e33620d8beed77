"""What a reader of publications knows of one run: features, taken from everything that a user can publish."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headwater.audit.events import Value
from headwater.measure.cascade import CascadeMechanism
from headwater.partition import Cells, Partition, Points
from headwater.publish.folder import card_of, publish, read_card
from headwater.publish.release import Release
from headwater.table.schema import Schema

if TYPE_CHECKING:
    from headwater.synthesizer import Synthesizer

Integers = NDArray[np.int64]

COARSE = 3  # depths at which cells are counted, besides the leaves


class View(dict[str, Value]):
    """Feature → value."""

    def __or__(self, more: dict[str, Value]) -> View:  # type: ignore[override]
        """Both together."""
        return View({**self, **more})


def look_at_release(at: str, release: Release, places: Points) -> View:
    """The counts near the replaced point and in coarse cells, the leaves, the points, the card and the file."""
    leaves, partition = release.leaves, release.schema.partition
    seen = View({f"{at} leaves": len(leaves.cells), f"{at} deepest": int(leaves.depths.max(initial=0))})
    for depth in range(1, min(COARSE, partition.deepest) + 1):
        for cell in np.unique(partition.cells(places, depth)):
            inside = (leaves.depths >= depth) & (
                leaves.cells >> np.maximum(leaves.depths - depth, 0).astype(np.uint64) == cell
            )
            seen[f"{at} cell {depth}:{cell}"] = int(leaves.counts[inside].sum())
    for name, place in zip("ab", places, strict=True):
        depth, count = _leaf_at(partition, leaves.cells, leaves.depths, leaves.counts, place)
        seen[f"{at} leaf depth at {name}"], seen[f"{at} leaf count at {name}"] = depth, count
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
        "rows": int(release.leaves.counts.sum()),
        "epsilon": release.epsilon,
        "mechanism": release.mechanism,
        "spread": release.spread,
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
        seen = View({f"{at} file size": len(data), f"{at} file": hashlib.sha256(data).hexdigest()})
        table = isinstance(release.schema, Schema)
        card = read_card(publish(release, folder, format="csv")) if table else card_of(release, saved)
    return seen | {f"{at} card.json {name}": json.dumps(value) for name, value in card.items() if name != "time"}


def look_at_wall(at: str, synth: Synthesizer, places: Points) -> View:
    """The noisy numbers themselves, before anything is made of them: those of all cells that hold either place."""
    measured, seen = synth._measure, View()
    partition = measured.partition
    if isinstance(measured, CascadeMechanism):
        measured.pooled()  # fast buckets are measured when somebody asks
        summaries = [*measured.slow, *measured.recent, *measured._fast.values()]
        seen[f"{at} buckets that have spoken"] = len(summaries)
        for summary in summaries:
            for rung, part in enumerate(summary.parts):
                name = f"bucket {part.start}-{part.end} rung {rung}"  # once: it never changes
                depth = len(part.tree.splits) - 1
                first, end = part.tree.edges(depth)
                for place, cell in zip("ab", partition.cells(places, depth).astype(np.int64), strict=True):
                    (leaf,) = np.flatnonzero((first <= cell) & (cell < end))
                    seen[f"{name} count at {place}"] = int(part.counts[leaf])
        return seen
    seen[f"{at} depth"] = measured.depth
    for depth in range(1, measured.depth + 1):
        cells = np.unique(partition.cells(places, depth))
        for cell, count in zip(cells.tolist(), measured.report(depth, cells).counts.tolist(), strict=True):
            seen[f"{at} depth {depth} cell {cell}"] = int(count)
    return seen


def _leaf_at(partition: Partition, cells: Cells, depths: Integers, counts: Integers, place: Points) -> tuple[int, int]:
    """The depth and the count of the leaf that holds a place; −1 and 0 if none does."""
    for depth in np.unique(depths):
        here = (depths == depth) & (cells == partition.cells(place[None], int(depth))[0])
        if here.any():
            return int(depth), int(counts[here][0])
    return -1, 0
