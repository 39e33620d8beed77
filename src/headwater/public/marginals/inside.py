"""Where inside its bin each record lies: what measured pairs say of records that share a cell.

Only the order of the records of a bin is decided here: how many there are of each value is the column's own shape.
Places are ranks. Where a column is measured with an ordered one whose records have their places, the mean rank moves
along with these from row to row, and what is left of a row's spread is noise. Other columns tilt a bin to the side on
which their odds grow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.public.marginals.codes import Codes
from headwater.public.marginals.tree import Forest, Pair, joint
from headwater.public.partition import Floats

TRACE = 0.05
"""Added to the ratio of a table to independence before its logarithm is taken: rare cells are not known so well."""
CLOSEST = 0.1
"""The least noise, as a part of the spread of a row."""
PARTS = 256
"""Equal parts of a bin in which ranks are counted."""
LOGISTIC = math.sqrt(3) / math.pi
"""The scale of a logistic distribution of unit variance."""


@dataclass(frozen=True, eq=False)
class Given:
    """What one column's bins say of another's values: their mean rank and how it moves inside a row, spread, tilts."""

    mean: Floats
    slope: Floats
    spread: Floats
    tilt: Floats
    below: Floats
    width: Floats
    explained: float

    @classmethod
    def of(cls, table: Floats, rows: int, columns: int) -> Given:
        """Of a table whose first ``rows`` rows and ``columns`` columns are values in order; others are missing."""
        values = table[:, :columns] + 1e-9 / table.size
        across, down = values.sum(0) / values.sum(), values.sum(1)
        middle, centre = np.cumsum(across) - across / 2, np.cumsum(down) - down / 2
        mean = values @ middle / down
        variance = values @ (middle**2 + across**2 / 12) / down - mean**2
        slope = np.zeros(len(mean))
        if rows > 1:
            low, high = np.maximum(np.arange(rows) - 1, 0), np.minimum(np.arange(rows) + 1, rows - 1)
            slope[:rows] = down[:rows] * (mean[high] - mean[low]) / (centre[high] - centre[low])
        most = np.sqrt(12 * (1 - CLOSEST**2) * variance)
        slope = np.clip(slope, -most, most)
        log = np.log(values / np.outer(down, across) + TRACE)
        tilt = np.gradient(log, axis=1) if columns > 1 else np.zeros_like(log)
        explained = 12 * float(down @ (mean - 0.5) ** 2 / down.sum())
        tilt = np.pad(tilt, ((0, 0), (0, table.shape[1] - columns)))
        below, width = np.append(np.cumsum(across) - across, 0.0), np.append(across, 1.0)  # missing ones lie anywhere
        return cls(mean, slope, np.sqrt(variance - slope**2 / 12), tilt, below, width, explained)

    def centres(self, rows: Codes, places: Floats | None, bins: Codes) -> tuple[Floats, Floats]:
        """Where in their bins records are expected, and how far from there, in widths of these bins."""
        if places is None:
            centre, spread = self.mean.take(rows), np.hypot(self.spread, self.slope / math.sqrt(12)).take(rows)
        else:
            centre, spread = self.mean.take(rows) + self.slope.take(rows) * (places - 0.5), self.spread.take(rows)
        width = self.width.take(bins)
        return (centre - self.below.take(bins)) / width, spread / width


def positions(
    records: Codes,
    forest: Forest,
    pairs: Mapping[Pair, Floats],
    values: Sequence[int],
    ordered: Sequence[bool],
    wide: Sequence[bool],
    rng: np.random.Generator,
) -> dict[int, Floats]:
    """For each column with wide bins the place of every record in its bin, by rank: even in ``[0, 1)``.

    ``values`` are the numbers of bins without that of missing values.
    """
    found = dict[int, Floats]()
    first = [column for column, parent in forest.parent.items() if parent is None]
    for column in [*forest.parent, *first]:  # those that were placed first now have others beside them
        if not wide[column]:
            continue
        partners = [other for other in range(len(records)) if (min(other, column), max(other, column)) in pairs]
        laws = {other: Given.of(joint(pairs, other, column), values[other], values[column]) for other in partners}
        near = _strongest(laws, [o for o in laws if o in found] or [o for o in laws if ordered[o]])
        beside = _strongest(laws, [o for o in laws if not wide[o] and o != near])
        centre, scale = np.full(records.shape[1], 0.5), np.ones(records.shape[1])
        bins = records[column]
        uniform: Floats = rng.random(len(bins))
        if near is not None:
            centre, scale = laws[near].centres(records[near], found.get(near), bins)
        if beside is not None:
            tilts = laws[beside].tilt
            cells = records[beside].astype(np.int64) * tilts.shape[1] + bins
            centre += tilts.ravel().take(cells) * np.minimum(scale, 1.0) ** 2
        if near is not None or beside is not None:
            uniform = truncated(uniform, centre, LOGISTIC * scale)
        found[column] = even(bins, uniform)
    return found


def _strongest(laws: Mapping[int, Given], others: Sequence[int]) -> int | None:
    return max(others, key=lambda other: laws[other].explained, default=None)


def truncated(uniform: Floats, centre: Floats, scale: Floats) -> Floats:
    """Numbers of ``[0, 1]`` of logistic distributions cut off there."""
    mirrored = centre < 0.5  # then both ends lie in the lower half of the distribution, where it is exact
    centre = np.where(mirrored, 1 - centre, centre)
    low = 1 / (1 + np.exp(np.minimum(centre / scale, 600.0)))
    high = 1 / (1 + np.exp(np.minimum((centre - 1) / scale, 600.0)))
    at = low + uniform * (high - low)
    found = np.clip(centre + scale * np.log(at / (1 - at)), 0, 1)
    return np.where(mirrored, 1 - found, found)


def even(bins: Codes, values: Floats) -> Floats:
    """Numbers of ``[0, 1]`` moved in each bin, in their order, so that they are even in ``[0, 1)``."""
    parts = np.minimum(values * PARTS, PARTS - 1e-9)
    whole = parts.astype(np.int64)
    inside = parts - whole
    whole += bins.astype(np.int64) * PARTS
    held = np.bincount(whole, minlength=(int(bins.max(initial=0)) + 1) * PARTS).reshape(-1, PARTS)
    total = np.maximum(held.sum(1, keepdims=True), 1)
    share = held / total
    before = np.cumsum(share, axis=1) - share
    found: Floats = np.clip(before.ravel().take(whole) + inside * share.ravel().take(whole), 0, 1 - 2**-53)
    return found
