"""Public bins: how a column is cut for the page, from its schema alone, and what its axis says.

A position runs from 0 to 1 along the drawn axis. Value number ``v`` of a finite column has the stretch from
``v / values`` to ``(v + 1) / values``; a continuum is drawn as it is. Where the last release, which is public, has most
of its values near the lower bound, positions follow the logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.evaluation.axes import ColumnAxis, Floats, Integers
from headwater.report import ticks
from headwater.report.ticks import Tail

FINE, COARSE = 48, 32
"""Bins of a column by itself, and along each side of a pair."""

MOSTLY = 0.7
"""A column with this share of its values in the first sixteenth of its range gets a logarithmic axis."""

MOST_BARS = 24
"""Categories drawn by themselves; the rest share one bar."""


@dataclass(frozen=True)
class Bins:
    """How one column is cut: bins ``0`` to ``size − 1``, then one for missing values."""

    column: ColumnAxis
    edges: tuple[float, ...]
    labels: tuple[str, ...] | None
    groups: Integers | None
    tail: Tail | None = None
    parts: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        """How many bins there are, that of missing values left out."""
        return len(self.edges) - 1

    def find(self, values: Floats) -> Integers:
        """The bin of each value."""
        there, steps = np.nan_to_num(values), self.column.axis.values
        if self.groups is not None:
            found = self.groups[there.astype(np.int64)]
        elif self.parts:
            inner = np.array(self.parts[1:-1])
            inner, codes = (np.rint(inner * steps), np.rint(there * (steps - 1))) if steps else (inner, there)
            found = np.searchsorted(inner, codes, side="right")
        else:
            found = np.minimum((there * self.size).astype(np.int64), self.size - 1)
        return np.where(np.isnan(values), self.size, found)

    def count(self, values: Floats) -> Integers:
        """How many values each bin has."""
        return np.bincount(self.find(values), minlength=self.size + 1)

    def to_dict(self) -> dict[str, Any]:
        """What the page needs to draw the axis."""
        return {
            "edges": [round(edge, 6) for edge in self.edges],
            "labels": self.labels,
            "ticks": None if self.labels else ticks.of(self.column, self.tail),
            "names": self.labels or ticks.stretches(self.column, self.parts or self.edges),
            "log": self.tail is not None,
        }


def cut(column: ColumnAxis, most: int, last: Floats) -> Bins:
    """Cut a column into at most ``most`` bins of about one width, as drawn; categories are bins by themselves.

    The last release only says which of very many categories get a bar of their own, and whether an axis is logarithmic.
    """
    values = column.axis.values
    if not column.ordered:
        return _bars(column, last)
    tail = long_tail(column, last)
    if tail is not None:
        parts = [tail.part(i / most) for i in range(most + 1)]
        if values is not None:
            parts = sorted({round(part * values) / values for part in parts})
        return Bins(column, tuple(map(tail.position, parts)), None, None, tail, tuple(parts))
    if values is None:
        return Bins(column, tuple(np.linspace(0, 1, most + 1)), None, None)
    size = -(-values // -(-values // most))  # bins hold as many values, or one less: none is much narrower
    edges = tuple((i * values // size) / values for i in range(size + 1))
    return Bins(column, edges, None, None, None, edges)


def long_tail(column: ColumnAxis, last: Floats) -> Tail | None:
    """A logarithmic axis for numbers of which most lie near a lower bound of about 0, judged by a public release."""
    if column.kind not in ("number", "integer") or column.declared.get("scale") == "log":
        return None
    if column.axis.values is not None and column.axis.values <= FINE:  # each value has a bar of its own
        return None
    low, high, values = column.declared["low"], column.declared["high"], last[~np.isnan(last)]
    if not 0 <= low < high / 100 or not len(values) or (values < 1 / 16).mean() < MOSTLY:
        return None
    above = values[values > 0]
    return Tail(1 / max(float(np.median(above)), 1e-9)) if len(above) else None


def labels_of(column: ColumnAxis) -> tuple[str, ...]:
    """The values of an unordered column."""
    return ("false", "true") if column.kind == "boolean" else tuple(str(value) for value in column.declared["values"])


def _bars(column: ColumnAxis, last: Floats) -> Bins:
    labels = labels_of(column)
    groups = np.arange(len(labels))
    if len(labels) > MOST_BARS:
        counts = np.bincount(last[~np.isnan(last)].astype(np.int64), minlength=len(labels))[: len(labels)]
        kept = np.sort(np.argsort(-counts, kind="stable")[: MOST_BARS - 1])
        groups = np.full(len(groups), MOST_BARS - 1)
        groups[kept] = np.arange(MOST_BARS - 1)
        labels = (*(labels[i] for i in kept), f"{len(labels) - len(kept)} others")
    return Bins(column, tuple(np.linspace(0, 1, len(labels) + 1)), labels, groups)
