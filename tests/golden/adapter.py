"""All that goldens know of names that are not public: what is kept of records, and what crosses the boundary."""

from __future__ import annotations

from typing import Any

import numpy as np
from typer.testing import CliRunner

import headwater as hw
from headwater.cli.app import app

NULL = 2**64 - 1


def encoded(synth: hw.Synthesizer, table: object, bad_rows: str | None = None) -> Any:  # noqa: ANN401
    """What the mechanism keeps of each record; of a null record, `NULL`. Whose the records are is left out."""
    kept = synth.encode(table, bad_rows=bad_rows)
    rows = kept[:, : synth._mechanism.width]
    found = rows.astype(np.uint64)
    found[(rows == np.iinfo(rows.dtype).max).all(axis=1)] = NULL
    return found


def take_rows(synth: hw.Synthesizer, table: object, bad_rows: str | None = None) -> None:
    """Take records that were encoded before."""
    synth.update_rows(synth.encode(table, bad_rows=bad_rows))


def take_counts(synth: hw.Synthesizer, parts: list[Any], bad_rows: str | None = None) -> None:
    """Take records that were counted before, each part by itself, the last part first."""
    first, counted = synth.t, []
    for part in parts:
        rows = synth.encode(part, bad_rows=bad_rows)
        counted.append(synth.count_rows(rows, first))
        first += len(rows)
    synth.update_counts(hw.BucketedCounts.merge(counted[::-1]))


def measured(synth: hw.Synthesizer, last: int | None = None) -> list[Any]:
    """The noisy counts that a release of this moment is made from: plain numbers, in an order of their own."""
    found: Any = synth.measured(last=last)
    kinds = {"cascade": _of_cascade, "marginals": _of_marginals, "paper": _of_paper}
    return kinds[synth.mechanism](found)


def _of_cascade(found: Any) -> list[Any]:  # noqa: ANN401
    buckets = [*found.history.slow, *found.history.recent, *found.fast]
    return [
        [one.start, one.end, number, part.variance, list(part.tree.splits), part.counts]
        for one in sorted(buckets, key=lambda one: (one.start, one.end))
        for number, part in enumerate(one.parts)
    ]


def _of_marginals(found: Any) -> list[Any]:  # noqa: ANN401
    tables = sorted(found.tables, key=lambda one: (one.end, one.start, one.columns))
    return [
        [
            [one.start, one.end, list(one.columns), one.scale, one.variance, one.gaussian, one.joint, one.present],
            list(one.edges),
            one.counts,
        ]
        for one in tables
    ]


def _of_paper(found: Any) -> list[Any]:  # noqa: ANN401
    return [[one.depth, one.cells, one.counts] for one in found.noisy]


def command(*words: object) -> None:
    """A command of the command line, in this process."""
    CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False, standalone_mode=False)
