"""The budget of each cell in the paper's mechanism. Public, and a pure function."""

from __future__ import annotations

import math


def cell_budget(depth: int, level: int, dimension: int, epsilon: float) -> float:
    """``ε_{j,r}``: what a cell of depth ``j`` may spend on one record that arrives during level ``r``.

    Formal guarantees
    -----------------
    A record lies in one cell of each depth, and replacing it moves it between two such paths, so
    ``2·Σ_j ε_{j,r} ≤ ε`` makes the whole mechanism ε-private. For ``d ≥ 2`` (equation 4.1 of the paper) the depths
    ``1 … r`` count the record and the sum is ``ε(1 − α^{−r})``. For ``d = 1`` (equation 5.1) every depth counts it,
    and the sum is ``(6/π²)(π²/6 − 1)·ε ≈ 0.39·ε``: the paper's proof sums from ``j = 0``, where no cell spends
    anything, so it leaves three fifths of the budget unspent. We keep its numbers.
    """
    if dimension == 1:
        return 3 / math.pi**2 * epsilon / (depth + 1) ** 2
    exponent = (1 - 1 / dimension) / 2
    share = (1 - math.exp2(-exponent)) / 2 * (1 - 2.0**-40)  # the last factor keeps rounding from ever overdrawing
    return share * epsilon * math.exp2((depth - level) * exponent)
