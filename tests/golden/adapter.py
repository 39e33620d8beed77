"""All that goldens know of names that are not public: what is kept of records, and what crosses the boundary."""

from __future__ import annotations

from typing import Any

import numpy as np
from typer.testing import CliRunner

import headwater as hw


def encoded(synth: hw.Synthesizer, table: object, bad_rows: str | None = None) -> Any:  # noqa: ANN401
    """What the mechanism keeps of each record, but for whose it is; the largest integers of a null record."""
    kept = synth.encode(table, bad_rows=bad_rows).rows[:, : len(synth.state.mechanism.sizes)]
    found = kept.astype(np.uint64)
    found[(kept == np.iinfo(kept.dtype).max).all(axis=1)] = np.iinfo(np.uint64).max
    return found


def take_encoded(synth: hw.Synthesizer, table: object, bad_rows: str | None = None) -> None:
    """Take records that were encoded before."""
    synth.take(synth.encode(table, bad_rows=bad_rows))


def take_counted(synth: hw.Synthesizer, parts: list[Any], bad_rows: str | None = None) -> None:
    """Take records that were counted before, the last part first."""
    first, counted = synth.t, list[hw.Batch]()
    for part in parts:
        counted.insert(0, synth.encode(part, first, bad_rows=bad_rows))
        first += counted[0].records
    synth.take(hw.Batch.merge(counted))


def measured(synth: hw.Synthesizer) -> list[Any]:
    """The noisy counts that a release of this moment is made from, and what they count."""
    found: Any = synth.measured()
    if synth.mechanism == "paper":
        return [[one.depth, one.cells, one.counts] for one in found.noisy]
    if synth.mechanism == "cascade":
        buckets = sorted(
            [*found.history.slow, *found.history.recent, *found.fast], key=lambda one: (one.start, one.end)
        )
        parts = [part for one in buckets for part in one.parts]
        return [[one.start, one.end, one.variance, list(one.tree.splits), one.counts] for one in parts]
    tables = sorted(found.tables, key=lambda one: (one.end, one.start, one.columns))
    names = ("start", "end", "columns", "edges", "counts", "present", "scale", "variance", "gaussian", "joint")
    return [[getattr(one, name) for name in names] for one in tables]


def command(*words: object) -> None:
    """A command of the command line, in this process."""
    from headwater.cli.app import app

    CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False, standalone_mode=False)
