"""What the page holds: counts over public bins, for each release and, if they are given, for the real data."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headwater.evaluation.axes import ColumnAxis, Floats, Integers
from headwater.evaluation.evaluation import NOT_PRIVATE
from headwater.evaluation.inputs import shortage
from headwater.public.budget import Guarantee
from headwater.public.moments import microseconds
from headwater.report import lines
from headwater.report.bins import COARSE, FINE, Bins, cut, long_tail
from headwater.report.quality import Errors, expected_columns
from headwater.report.releases import Published

_CARD = ("headwater", "epsilon", "delta", "neighbours", "guarantee", "noise", "mechanism", "mechanism_reason", "note")
ROWS = 10  # that are shown as text
_WORDS = ("loss", "whom", "promise", "meaning", "limits")


@dataclass(frozen=True)
class Counts:
    """How many rows lie in which bins: of each column, and of each pair of columns."""

    columns: list[Integers]
    pairs: list[Integers]


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

    def count(self, points: Floats) -> Counts:
        """Count points of the cube: of each column and pair, with missing values in the last bin."""
        both = zip(self.fine, points.T, strict=True)
        fine = [np.bincount(bins.find(places), minlength=bins.size + 1) for bins, places in both]
        coarse = {i: self.coarse[i].find(points[:, i]) for i in {i for pair in self.pairs for i in pair}}
        pairs = []
        for x, y in self.pairs:
            shape = self.coarse[y].size + 1, self.coarse[x].size + 1
            cells = np.bincount(coarse[y] * shape[1] + coarse[x], minlength=shape[0] * shape[1])
            pairs.append(cells.reshape(shape))
        return Counts(fine, pairs)


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
    real: list[Counts] | None = None  # with it the page is not private, unless the real data are public
    real_rows: tuple[int, int] = (0, 0)  # and so many of them are records
    public: bool = False
    errors: list[Errors | None] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """For JSON, in the page."""
        card, releases = self.releases[-1].card, [_release(release) for release in self.releases]
        said = Guarantee.as_stated(card)
        measured = [None if found is None else found.whole for found in self.errors]
        (rows, known), end = self.real_rows, max(release.span[1] for release in self.releases)
        short = shortage(rows, (0, end), "the last release", known)  # from 0: rows are compared by their places
        return {
            "warning": NOT_PRIVATE if self.real is not None and not self.public else None,
            "names": self.names,
            "total": self.total,
            "card": {key: card[key] for key in _CARD if key in card} | {name: getattr(said, name) for name in _WORDS},
            "releases": releases,
            "growth": lines.growth(releases),
            "error": lines.error(releases, measured),
            "quality": self.quality,
            "sample": self.sample,
            "columns": [self._column(i) for i in range(len(self.cuts.fine))],
            "pairs": [self._pair(i) for i in range(len(self.cuts.pairs))],
            "real": None if self.real is None else {"rows": rows, "public": self.public, "shortage": short},
        }

    def _column(self, i: int) -> dict[str, Any]:
        bins = self.cuts.fine[i]
        found = {"name": bins.column.name, "kind": bins.column.kind, "missing": bins.column.axis.missing}
        found |= bins.to_dict() | {"counts": [counts.columns[i].tolist() for counts in self.counts]}
        found["expected"] = [expected_columns(release.card, [bins.column])[0] for release in self.releases]
        if self.real is not None:
            found["real"] = [counts.columns[i].tolist() for counts in self.real]
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


def texts(schema: Any, points: Floats) -> list[list[str | None]]:  # noqa: ANN401 - a Schema or a UnitCube
    """Rows at points of the cube as text, None where a value is missing. Numbers have their decimals, or six digits."""
    columns = getattr(schema, "columns", {})
    exact = {name for name, column in columns.items() if getattr(column, "grid", None) is not None}
    days = {
        name
        for name, column in columns.items()
        if column.kind == "datetime" and not microseconds(column.step) % microseconds("1d")
    }
    records: list[dict[str, Any]] = schema.decode(points, "records")
    return [[_text(v, exact=name in exact, day=name in days) for name, v in record.items()] for record in records]


def _text(value: Any, *, exact: bool, day: bool) -> str | None:  # noqa: ANN401 - a value of any column
    if value is None or value != value:
        return None
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:.15g}" if exact else f"{value:.6g}"
        return f"{value:.0f}" if "e+" in short and abs(value) < 1e15 else short
    return str(value).removesuffix(" 00:00:00") if day else str(value)
