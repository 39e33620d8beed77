"""What private tree decisions would cost, computed for integer noise; the figures quoted in proofs/cascade.md.

Nothing in the package relies on this: cascade takes its trees from published numbers.
"""

from __future__ import annotations

import math
from itertools import pairwise

import pytest


def above(m: int, scale: float) -> float:
    """``P(Z ≥ m)`` of integer Laplace noise."""
    q = math.exp(-1 / scale)
    return q**m / (1 + q) if m >= 1 else 1 - q ** (1 - m) / (1 + q)


def loss(scale: float, bias: int) -> float:
    """The largest loss of all decisions when one path loses a point and another gains one, for threshold 0.

    A cell with biased count ``b``, never below ``1 − bias``, is split if ``b + Z > 0``. Along the path that loses the
    point biased counts fall by at least ``bias`` a depth, and only splits can become less likely. So the worst sequence
    is one of ``bias`` arithmetic ones; beyond its first terms the summand falls like ``e^(−b/scale)``.
    """
    split = [math.log(above(1 - b, scale) / above(2 - b, scale)) for b in range(1 - bias, int(40 * scale))]
    assert all(x >= y - 1e-12 for x, y in pairwise(split)), "the log ratio must not rise with b"
    losing = max(sum(split[first::bias]) for first in range(bias)) + split[-1] / (1 - math.exp(-bias / scale))
    gaining = max(math.log(above(b - 1, scale) / above(b, scale)) for b in range(1 - bias, int(40 * scale)))
    return losing + gaining


def smallest_scale(budget: float, fan_out: int) -> float:
    """The smallest noise, as a multiple of 1/budget, that is certified, up to a hundredth."""
    multiple = 1.0
    while loss(multiple / budget, max(1, round(multiple / budget * math.log(fan_out)))) > budget:
        multiple += 0.01
    return multiple


@pytest.mark.parametrize(("fan_out", "expected"), [(4, 3.2), (2, 3.6)])
@pytest.mark.parametrize("budget", [0.05, 0.3])
def test_the_certificate_is_what_the_proof_note_says(fan_out: int, expected: float, budget: float) -> None:
    found = smallest_scale(budget, fan_out)
    assert abs(found - expected) < 0.1
    both_paths_in_full = 2 * (2 * fan_out - 1) / (fan_out - 1)
    assert found < 0.75 * both_paths_in_full
