"""What the page holds: counts over public bins, for each release and, if it is given, for the real data."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headwater.evaluate.axes import ColumnAxis, Floats, Integers, SchemaLike
from headwater.evaluate.evaluation import NOT_PRIVATE
from headwater.evaluate.report import lines
from headwater.evaluate.report.bins import COARSE, FINE, Bins, cut, tally, tally_pair
from headwater.evaluate.report.releases import Published
from headwater.table.frames import kind_of

_CARD = ("headwater", "epsilon", "neighbours", "mechanism", "note")


@dataclass(frozen=True)
class Counts:
    """How many rows lie in which bins: of each column, and of each pair of columns."""

    columns: list[Integers]
    pairs: list[Integers]

    def __add__(self, other: Counts) -> Counts:
        return self._with(other, 1)

    def __sub__(self, other: Counts) -> Counts:
        return self._with(other, -1)

    def _with(self, other: Counts, sign: int) -> Counts:
        columns = [a + sign * b for a, b in zip(self.columns, other.columns, strict=True)]
        return Counts(columns, [a + sign * b for a, b in zip(self.pairs, other.pairs, strict=True)])


@dataclass(frozen=True)
class Cuts:
    """How every column is cut, by itself and in pairs, and which pairs there are."""

    fine: list[Bins]
    coarse: list[Bins]
    pairs: list[tuple[int, int]]

    @staticmethod
    def choose(columns: tuple[ColumnAxis, ...], pairs: list[tuple[int, int]], last: Floats) -> Cuts:
        """Cut by the schema; the last release only says which of very many categories get a bar of their own."""
        popular = [
            None if column.ordered else np.bincount(values.astype(np.int64)[there], minlength=column.axis.values or 1)
            for column, (values, there) in ((c, c.split(places)) for c, places in zip(columns, last.T, strict=True))
        ]
        fine, coarse = ([cut(c, most, p) for c, p in zip(columns, popular, strict=True)] for most in (FINE, COARSE))
        return Cuts(fine, coarse, pairs)

    def count(self, points: Floats) -> Counts:
        """Count points of the cube."""
        fine = [bins.find(points[:, i]) for i, bins in enumerate(self.fine)]
        used = {i for pair in self.pairs for i in pair}
        coarse = {i: self.coarse[i].find(points[:, i]) for i in used}
        pairs = [tally_pair(coarse[x], coarse[y], self.coarse[x], self.coarse[y]) for x, y in self.pairs]
        return Counts(tally(fine, self.fine), pairs)


@dataclass
class Page:
    """The contents of a page, release by release."""

    cuts: Cuts
    total: int
    releases: list[Published] = field(default_factory=list)
    counts: list[Counts] = field(default_factory=list)
    real: list[Counts] | None = None
    real_rows: int = 0

    def add(self, release: Published, counts: Counts) -> None:
        """Take the next release."""
        self.releases.append(release)
        self.counts.append(counts)

    def compare(self, real: list[Counts], rows: int) -> None:
        """Put the real data beside the releases. From here on the page is not private."""
        self.real, self.real_rows = real, rows

    def to_dict(self) -> dict[str, Any]:
        """For JSON, in the page."""
        card, releases = self.releases[-1].card, [_release(release) for release in self.releases]
        return {
            "warning": NOT_PRIVATE if self.real is not None else None,
            "total": self.total,
            "card": {key: card[key] for key in _CARD if key in card},
            "releases": releases,
            "growth": lines.growth(releases),
            "error": lines.expected_error(releases),
            "columns": [self._column(i) for i in range(len(self.cuts.fine))],
            "pairs": [self._pair(i) for i in range(len(self.cuts.pairs))],
            "real": None if self.real is None else {"rows": self.real_rows},
        }

    def _column(self, i: int) -> dict[str, Any]:
        bins = self.cuts.fine[i]
        found = {"name": bins.column.name, "kind": bins.column.kind, "missing": bins.column.axis.missing}
        found |= bins.to_dict() | {"counts": [counts.columns[i].tolist() for counts in self.counts]}
        if self.real is not None:
            found["real"] = [counts.columns[i].tolist() for counts in self.real]
            both = zip(self.counts, self.real, strict=True)
            found["distance"] = [_distance(bins, a.columns[i], b.columns[i]) for a, b in both]
        return found

    def _pair(self, i: int) -> dict[str, Any]:
        x, y = self.cuts.pairs[i]
        found = {"x": x, "y": y, "across": self.cuts.coarse[x].to_dict(), "up": self.cuts.coarse[y].to_dict()}
        found["frames"] = [_frame(counts.pairs[i]) for counts in self.counts]
        if self.real is not None:
            found["real"] = [_frame(counts.pairs[i]) for counts in self.real]
        return found


def real_counts(
    against: object,
    schema: SchemaLike,
    cuts: Cuts,
    spans: list[tuple[int, int]],
    tell: Callable[[str, int, int | None], None],
) -> tuple[list[Counts], int]:
    """Counts of the real rows that each release is about, and how many real rows there were up to the last one.

    Reads batch by batch and keeps counts only: those of the rows up to every moment where some span starts or ends.
    """
    moments = sorted({moment for span in spans for moment in span})
    running = cuts.count(np.empty((0, schema.dimension)))
    up_to, rows = dict[int, Counts](), 0
    for batch in _batches(against):
        points = batch if isinstance(batch, np.ndarray) else schema.encode(batch)  # an array is encoded already
        for moment in [m for m in moments if m not in up_to and m <= rows + len(points)]:
            part, points = points[: moment - rows], points[moment - rows :]
            running, rows = running + cuts.count(part), moment
            up_to[moment] = running
        if len(up_to) < len(moments):
            running, rows = running + cuts.count(points), rows + len(points)
        tell("real rows", rows, moments[-1])
        if len(up_to) == len(moments):
            break
    for moment in moments:  # what the real data are too short for
        up_to.setdefault(moment, running)
    return [up_to[end] - up_to[start] for start, end in spans], rows


def _batches(against: object) -> Iterator[object]:
    """Tables, of one table or of many. A table is what has columns, a dictionary, an array or a list of records."""
    single = isinstance(against, Mapping | np.ndarray) or hasattr(against, "columns")
    if isinstance(against, list | tuple) and against:
        single = isinstance(against[0], Mapping) and kind_of(against[0]) == "records"
    if not single and isinstance(against, Iterable):
        yield from against
    else:
        yield against


def _release(release: Published) -> dict[str, Any]:
    card, (start, end) = release.card, release.span
    error = card["expected_error"] or {}
    found = {"name": release.folder.name, "t": card["t"], "start": start, "end": end, "rows": card["rows"]}
    # Nothing is known before the first bucket is full: the card says infinity, which JSON has no word for.
    known = {key: error[key] if key in error and math.isfinite(error[key]) else None for key in ("typical", "upper")}
    return found | {"time": card["time"]} | known


def _frame(counts: Integers) -> dict[str, Any]:
    """A picture in one byte for each cell, the root of its part of the fullest; missing values are counted apart."""
    there = counts[:-1, :-1]
    most = int(there.max(initial=0))
    # Rounded up, so that one row in a cell can be told from none.
    shades = np.ceil(255 * np.sqrt(there / max(most, 1))).astype(np.uint8)
    rows = int(counts.sum())
    cells = base64.b64encode(shades.tobytes()).decode("ascii")
    return {"cells": cells, "most": most, "rows": rows, "missing": rows - int(there.sum())}


def _distance(bins: Bins, synthetic: Integers, real: Integers) -> float | None:
    """W₁ or total variation of what is drawn, missing values left out."""
    p, q = synthetic[:-1], real[:-1]
    if not p.sum() or not q.sum():
        return None
    gap = p / p.sum() - q / q.sum()
    if not bins.column.ordered:
        return round(float(np.abs(gap).sum()) / 2, 5)
    return round(float(np.abs(np.cumsum(gap)) @ np.diff(bins.edges)), 5)
