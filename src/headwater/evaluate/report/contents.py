"""What the page holds: counts over public bins, for each release and, if they are given, for the real data."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headwater.evaluate.axes import ColumnAxis, Floats, Integers
from headwater.evaluate.encoded import Encoded
from headwater.evaluate.evaluation import NOT_PRIVATE, shortage
from headwater.evaluate.report import lines
from headwater.evaluate.report.bins import COARSE, FINE, Bins, cut, long_tail, tally, tally_pair
from headwater.evaluate.report.measured import Errors
from headwater.evaluate.report.quality import expected_columns
from headwater.evaluate.report.releases import Published
from headwater.public.budget import Guarantee

_CARD = ("headwater", "epsilon", "delta", "neighbours", "guarantee", "noise", "mechanism", "mechanism_reason", "note")


@dataclass(frozen=True)
class Counts:
    """How many rows lie in which bins: of each column, and of each pair of columns; and how many beyond the bounds."""

    columns: list[Integers]
    pairs: list[Integers]
    beyond: tuple[int, ...] = ()


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
        tails = [long_tail(column, places) for column, places in zip(columns, last.T, strict=True)]
        shapes = list(zip(columns, popular, tails, strict=True))
        fine, coarse = ([cut(c, most, p, tail) for c, p, tail in shapes] for most in (FINE, COARSE))
        return Cuts(fine, coarse, pairs)

    def count(self, points: Floats | Encoded) -> Counts:
        """Count points of the cube. Values beyond the bounds are in no bin of their column, and missing from pairs."""
        rows = points if isinstance(points, Encoded) else Encoded(points)
        inside = {i: far == 0 for i, far in rows.beyond.items()}
        fine = [bins.find(rows.points[:, i]) for i, bins in enumerate(self.fine)]
        fine = [found[inside[i]] if i in inside else found for i, found in enumerate(fine)]
        used = {i for pair in self.pairs for i in pair}
        coarse = {i: self.coarse[i].find(rows.points[:, i]) for i in used}
        coarse |= {i: np.where(inside[i], coarse[i], self.coarse[i].size) for i in used & inside.keys()}
        pairs = [tally_pair(coarse[x], coarse[y], self.coarse[x], self.coarse[y]) for x, y in self.pairs]
        return Counts(tally(fine, self.fine), pairs, tuple(len(rows) - len(found) for found in fine))


@dataclass
class Page:
    """The contents of a page, release by release."""

    cuts: Cuts
    total: int
    releases: list[Published] = field(default_factory=list)
    counts: list[Counts] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    quality: dict[str, Any] | None = None
    sample: dict[str, Any] | None = None
    real: list[Counts] | None = None
    real_rows: tuple[int, int] = (0, 0)  # and so many of them are records
    public: bool = False
    errors: list[Errors | None] = field(default_factory=list)

    def add(self, release: Published, counts: Counts) -> None:
        """Take the next release."""
        self.releases.append(release)
        self.counts.append(counts)

    def compare(self, real: list[Counts], errors: list[Errors | None], rows: tuple[int, int], *, public: bool) -> None:
        """Put the real data beside the releases. From here on the page is not private, unless these are public."""
        self.real, self.errors, self.real_rows, self.public = real, errors, rows, public

    def to_dict(self) -> dict[str, Any]:
        """For JSON, in the page."""
        card, releases = self.releases[-1].card, [_release(release) for release in self.releases]
        measured = [None if found is None else found.whole for found in self.errors]
        return {
            "warning": NOT_PRIVATE if self.real is not None and not self.public else None,
            "names": self.names,
            "total": self.total,
            "card": {key: card[key] for key in _CARD if key in card} | _words(card),
            "releases": releases,
            "growth": lines.growth(releases),
            "error": lines.error(releases, measured),
            "quality": self.quality,
            "sample": self.sample,
            "columns": [self._column(i) for i in range(len(self.cuts.fine))],
            "pairs": [self._pair(i) for i in range(len(self.cuts.pairs))],
            "real": None if self.real is None else self._real(),
        }

    def _real(self) -> dict[str, Any]:
        end = max(release.span[1] for release in self.releases)
        rows, known = self.real_rows
        short = shortage(rows, (0, end), "the last release", known)  # from 0: rows are compared by their places
        return {"rows": rows, "public": self.public, "shortage": short}

    def _column(self, i: int) -> dict[str, Any]:
        bins = self.cuts.fine[i]
        found = {"name": bins.column.name, "kind": bins.column.kind, "missing": bins.column.axis.missing}
        found |= bins.to_dict() | {"counts": [counts.columns[i].tolist() for counts in self.counts]}
        found["expected"] = [expected_columns(release.card, [bins.column])[0] for release in self.releases]
        if self.real is not None:
            found["real"] = [counts.columns[i].tolist() for counts in self.real]
            found["beyond"] = [counts.beyond[i] for counts in self.real]
            found["errors"] = [None if error is None else round(error.columns[i], 5) for error in self.errors]
        return found

    def _pair(self, i: int) -> dict[str, Any]:
        x, y = self.cuts.pairs[i]
        found = {"x": x, "y": y, "across": self.cuts.coarse[x].to_dict(), "up": self.cuts.coarse[y].to_dict()}
        found["frames"] = [_frame(counts.pairs[i]) for counts in self.counts]
        if self.real is not None:
            found["real"] = [_frame(counts.pairs[i]) for counts in self.real]
        return found


def _release(release: Published) -> dict[str, Any]:
    card, (start, end) = release.card, release.span
    error = card["expected_error"] or {}
    found = {"name": release.folder.name, "t": card["t"], "start": start, "end": end, "rows": card["rows"]}
    # Nothing is known before the first bucket is full: the card says infinity, which JSON has no word for.
    known = {key: error[key] if key in error and math.isfinite(error[key]) else None for key in ("typical", "upper")}
    return found | {"time": card["time"], "measure": str(error.get("measure", "W1"))} | known


def _frame(counts: Integers) -> dict[str, Any]:
    """A picture in one byte for each cell, the root of its part of the fullest; missing values are counted apart."""
    there = counts[:-1, :-1]
    most = int(there.max(initial=0))
    # Rounded up, so that one row in a cell is drawn darker than none.
    shades = np.ceil(255 * np.sqrt(there / max(most, 1))).astype(np.uint8)
    rows = int(counts.sum())
    cells = base64.b64encode(shades.tobytes()).decode("ascii")
    return {"cells": cells, "most": most, "rows": rows, "missing": rows - int(there.sum())}


def _words(card: Mapping[str, Any]) -> dict[str, str]:
    """What is promised, in the words of `headwater.public.budget`."""
    found = Guarantee.as_stated(card)
    return {name: getattr(found, name) for name in ("loss", "whom", "promise", "meaning", "limits")}
