"""The Private Measure Mechanism: one release of a data set that is already complete (He, Vershynin, Zhu 2023).

The offline yardstick: what could be published at time ``t`` if it were the only release ever made.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from headwater.measure.budget import Ledger, Spend, scale_for
from headwater.measure.noise import Noise
from headwater.partition import Cells, Partition, Points
from headwater.wall import Report


class PmmMechanism:
    """Noisy counts of all cells to depth ``⌊log2(εn)⌋``, once.

    Formal guarantees
    -----------------
    ε-differentially private for replacing one of the ``n`` points: at each depth ``j`` two cells' counts move by
    one, each under integer Laplace noise of scale ``1/ε_j``, and ``2·Σ ε_j ≤ ε`` with ``ε_j ∝ 2^{j(1−1/d)/2}``.
    """

    name = "pmm"

    def __init__(self, points: Points, partition: Partition, epsilon: float, noise: Noise) -> None:
        self.partition, self.epsilon, self.noise, self.t = partition, epsilon, noise, len(points)
        self.depth = min(max(math.floor(Fraction(epsilon) * self.t).bit_length() - 1, 0), partition.deepest)
        self._cells = np.sort(self.partition.cells(points, self.depth))
        weights = [2 ** (j * (1 - 1 / partition.dimension) / 2) for j in range(1, self.depth + 1)]
        share = epsilon / 2 * (1 - 2.0**-40) / sum(weights or [1.0])  # rounding must never overdraw
        self._scales = [scale_for(share * weight) for weight in weights]

    def report(self, depth: int, cells: Cells) -> Report:
        """The noisy counts of these cells."""
        shift = np.uint64(self.depth - depth)
        lower, upper = (np.searchsorted(self._cells, edge << shift) for edge in (cells, cells + np.uint64(1)))
        noise = self.noise.laplace_at(self._scales[depth - 1], np.uint64(1 << depth) | cells, 0)
        return Report(depth, cells, upper - lower + noise)

    def ledger(self) -> Ledger:
        """Two cells of each depth."""
        return Ledger(Spend(f"count, depth {j}", scale, touches=2) for j, scale in enumerate(self._scales, start=1))
