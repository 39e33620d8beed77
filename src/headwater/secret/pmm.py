"""The Private Measure Mechanism: one release of a data set that is already complete (He, Vershynin, Zhu 2023).

The offline baseline: what could be published at time ``t`` if it were the only release ever made.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from headwater.public.budget import Ledger, Spend
from headwater.public.cells import CellCounts
from headwater.public.laws import IntegerLaplace, scale_for
from headwater.public.paper import Measured, measure
from headwater.public.partition import Cells, Partition, Points
from headwater.secret.noise import Noise


def measure_once(points: Points, partition: Partition, epsilon: float, noise: Noise, seed: int) -> Measured:
    """Noisy counts of all cells to depth ``⌊log2(εn)⌋``, once. ``seed`` is public randomness."""
    scales = scales_of(len(points), partition, epsilon)
    mine = np.sort(partition.cells(points, len(scales)))

    def noisy_counts(depth: int, cells: Cells) -> CellCounts:
        shift = np.uint64(len(scales) - depth)
        lower, upper = (np.searchsorted(mine, edge << shift) for edge in (cells, cells + np.uint64(1)))
        counts = upper - lower + noise.laplace_at(scales[depth - 1], np.uint64(1 << depth) | cells, 0)
        return CellCounts(depth, cells, counts)

    return measure(noisy_counts, len(points), len(scales), partition, seed)


def scales_of(n: int, partition: Partition, epsilon: float) -> list[float]:
    depth = min(max(math.floor(Fraction(epsilon) * n).bit_length() - 1, 0), partition.deepest)
    weights = [2 ** (j * (1 - 1 / partition.dimension) / 2) for j in range(1, depth + 1)]
    share = epsilon / 2 * (1 - 2.0**-40) / math.fsum(weights or [1.0])  # rounding must never overdraw
    return [scale_for(share * weight) for weight in weights]


def ledger(n: int, partition: Partition, epsilon: float) -> Ledger:
    laws = [IntegerLaplace(scale) for scale in scales_of(n, partition, epsilon)]
    return Ledger(Spend(f"count, depth {j}", law, touches=2) for j, law in enumerate(laws, start=1))
