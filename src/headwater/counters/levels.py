"""The levels of time that the paper's counters and mechanism share: level ``r`` starts at ``t_r = ⌈2^r/ε⌉``."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache


@lru_cache(maxsize=1024)  # many counters step through the same times
def level_start(level: int, epsilon: float) -> int:
    """The time ``t_r = ⌈2^r/ε⌉`` at which level ``r`` starts, exactly.

    >>> [level_start(r, 0.5) for r in range(4)]
    [2, 4, 8, 16]
    """
    return math.ceil((1 << level) / Fraction(epsilon))


@lru_cache(maxsize=1024)
def level_at(t: int, epsilon: float) -> int:
    """The level of time ``t``: the largest ``r`` with ``t_r ≤ t``, or −1 before the first one.

    Levels of length zero (``t_r = t_{r+1}``, possible when ε > 1) are never the level of any time.

    >>> [level_at(t, 0.5) for t in (1, 2, 3, 4, 8)]
    [-1, 0, 0, 1, 2]
    """
    return math.floor(Fraction(epsilon) * t).bit_length() - 1
