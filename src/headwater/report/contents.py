"""What the page holds: counts over public bins, for each release and, if they are given, for the real data."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from headwater.evaluation.axes import Integers
from headwater.evaluation.bars import Bars
from headwater.evaluation.evaluation import NOT_PRIVATE
from headwater.evaluation.inputs import shortage
from headwater.evaluation.pairs import bins_of, information
from headwater.evaluation.yardstick import Columns, Table
from headwater.public.budget import Guarantee
from headwater.public.moments import microseconds
from headwater.public.partition import Points
from headwater.report.bins import COARSE, FINE, Bins, cut
from headwater.report.releases import Published
from headwater.report.ticks import Scale, datetimes

_CARD = ("headwater", "epsilon", "delta", "neighbours", "guarantee", "noise", "mechanism", "mechanism_reason", "note")
ROWS = 10  # that are shown as text
ALL_PAIRS, SOME_PAIRS = 10, 6
"""All pairs of columns are drawn if there are at most so many; else so many of them, and of the worst some more."""
DEPENDENCE_ROWS = 50_000
"""Rows of the last release that decide which pairs depend on each other most."""
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
    def choose(columns: Columns, pairs: list[tuple[int, int]], last: Table) -> Cuts:
        """Cut by the schema."""
        both = list(zip(columns, last, strict=True))
        fine, coarse = ([cut(column, most, values) for column, values in both] for most in (FINE, COARSE))
        return Cuts(fine, coarse, pairs)

    def count(self, table: Table) -> Counts:
        """Count each column and pair, with missing values in the last bin."""
        coarse = {i: self.coarse[i].find(table[i]) for i in {i for pair in self.pairs for i in pair}}
        pairs = []
        for x, y in self.pairs:
            shape = self.coarse[y].size + 1, self.coarse[x].size + 1
            cells = np.bincount(coarse[y] * shape[1] + coarse[x], minlength=shape[0] * shape[1])
            pairs.append(cells.reshape(shape))
        return Counts([bins.count(values) for bins, values in zip(self.fine, table, strict=True)], pairs)

    def whiskers(self, bars: Bars) -> list[list[float]]:
        """Half the width of the error bar of the share of each bin, by column."""

        def shares(i: int) -> list[float]:
            half = bars.half(lambda table: self.fine[i].count(table[i])[:-1] / max((~np.isnan(table[i])).sum(), 1))
            return [round(min(float(width), 1.0), 6) for width in half]

        return [shares(i) for i in range(len(self.fine))]


@dataclass
class Page:
    """The contents of a page, release by release."""

    cuts: Cuts
    total: int
    releases: list[Published] = field(default_factory=list)
    counts: list[Counts] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    whiskers: list[list[float]] | None = None  # of the last release
    quality: dict[str, Any] | None = None
    sample: dict[str, Any] | None = None
    real: list[Counts] | None = None  # with it the page is not private, unless the real data are public
    real_rows: tuple[int, int] = (0, 0)  # and so many of them are records
    public: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For JSON, in the page."""
        card, releases = self.releases[-1].card, [_release(release) for release in self.releases]
        said = Guarantee.as_stated(card)
        (rows, known), end = self.real_rows, max(release.span[1] for release in self.releases)
        short = shortage(rows, (0, end), "the last release", known)  # from 0: rows are compared by their places
        return {
            "warning": NOT_PRIVATE if self.real is not None and not self.public else None,
            "names": self.names,
            "total": self.total,
            "card": {key: card[key] for key in _CARD if key in card} | {name: getattr(said, name) for name in _WORDS},
            "releases": releases,
            "growth": growth(releases),
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
        found["bars"] = None if self.whiskers is None else self.whiskers[i]
        if self.real is not None:
            found["real"] = [counts.columns[i].tolist() for counts in self.real]
        return found

    def _pair(self, i: int) -> dict[str, Any]:
        x, y = self.cuts.pairs[i]
        found = {"x": x, "y": y, "across": self.cuts.coarse[x].to_dict(), "up": self.cuts.coarse[y].to_dict()}
        found["frames"] = [_frame(counts.pairs[i]) for counts in self.counts]
        if self.real is not None:
            found["real"] = [_frame(counts.pairs[i]) for counts in self.real]
        return found


def choose_pairs(
    columns: Columns,
    last: Table,
    wanted: Sequence[tuple[str, str]] | None = None,
    worst: Sequence[tuple[str, str]] = (),
) -> list[tuple[int, int]]:
    """Which columns are drawn against each other, the one that goes to the right first; ``worst`` ones also if many."""
    names = [column.name for column in columns]
    if wanted is not None:
        for pair in wanted:
            if len(set(pair)) != 2:
                raise ValueError("pairs must hold two different columns each")
            for name in pair:
                if name not in names:
                    raise ValueError(f"pairs names the column {name!r}, but the schema has {', '.join(names)}")
        return [(names.index(x), names.index(y)) for x, y in wanted]
    pairs = list(combinations(range(len(columns)), 2))
    if len(pairs) > ALL_PAIRS:
        some = [values[:DEPENDENCE_ROWS] for values in last]
        depend = {(i, j): information(table) for i, j, table in bins_of(columns, some, some).tables()}
        pairs = sorted(pairs, key=lambda pair: -depend[pair])[:SOME_PAIRS]
        pairs = list(dict.fromkeys([*pairs, *((names.index(x), names.index(y)) for x, y in worst)]))
    # Names of categories are easier to read beside the picture than below it.
    return [(y, x) if columns[y].ordered and not columns[x].ordered else (x, y) for x, y in pairs]


def _release(release: Published) -> dict[str, Any]:
    start, end = release.span
    card = release.card
    return {"name": release.folder.name, "start": start, "end": end} | {key: card[key] for key in ("t", "rows", "time")}


def growth(releases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Rows of each release over the time of its publication, and records so far if that is something else."""
    x, places = _published(releases)
    scale = Scale.of(0, max(release["t"] for release in releases))
    windows = any(release["rows"] != release["t"] for release in releases)
    same, apart = "records so far, as many as the release has rows", "rows of the release; dashed: records so far"

    def line(key: str) -> list[tuple[float, float]]:
        return [(place, scale.at(release[key])) for place, release in zip(places, releases, strict=True)]

    first, last = releases[0]["t"], releases[-1]["t"]
    return {
        "x": x,
        "y": scale.to_dict(apart if windows else same),
        "series": line("rows"),
        "dashed": line("t") if windows else None,
        "describe": f"The stream has {first:,} records at the first release shown and {last:,} at the last",
    }


def _published(releases: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[float]]:
    """The axis of time, if each release was published after the one before it; else releases are numbered."""
    times = [_moment(release["time"]) for release in releases]
    known = [time for time in times if time is not None]
    if len(known) == len(times) > 1 and all(a < b for a, b in pairwise(known)):
        start, span = known[0], (known[-1] - known[0]).total_seconds()
        places = [round((time - start).total_seconds() / span, 6) for time in known]
        return {"label": "published, UTC", "ticks": datetimes(start, known[-1])}, places
    scale = Scale.of(1, len(releases))
    return scale.to_dict("release"), [scale.at(number) for number in range(1, len(releases) + 1)]


def _moment(text: str) -> datetime | None:
    """A time as a card has it, in UTC unless it says otherwise; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None


def _frame(counts: Integers) -> dict[str, Any]:
    """A picture in one byte for each cell, the root of its part of the fullest; missing values are counted apart."""
    there = counts[:-1, :-1]
    most = int(there.max(initial=0))
    # Rounded up, so that one row in a cell is drawn darker than none.
    shades = np.ceil(255 * np.sqrt(there / max(most, 1))).astype(np.uint8)
    rows = int(counts.sum())
    cells = base64.b64encode(shades.tobytes()).decode("ascii")
    return {"cells": cells, "most": most, "rows": rows, "missing": rows - int(there.sum())}


def texts(schema: Any, points: Points) -> list[list[str | None]]:  # noqa: ANN401 - a Schema or a UnitCube
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
