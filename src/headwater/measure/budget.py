"""How ε is split, and the ledger that proves the split adds up.

A ledger lists every kind of draw that one record can move: the scale of its noise, how many such draws the record
can touch and by how much each of them moves. A draw of integer Laplace noise of scale ``σ`` whose centre moves by
``s`` changes any outcome's probability by a factor of at most ``exp(s/σ)``; the ledger adds up the exponents, in
exact rational arithmetic, so that the sum is a fact and not a rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real


@dataclass(frozen=True)
class Spend:
    """One kind of draw: a record moves ``touches`` of them, each by at most ``shift``, under noise of ``scale``."""

    what: str
    scale: float
    touches: int = 1
    shift: int = 1

    @property
    def cost(self) -> Fraction:
        """The ε that this kind of draw costs a record, exactly."""
        return self.touches * self.shift / Fraction(self.scale)


class Ledger(tuple[Spend, ...]):
    """All the kinds of draws that one record can move.

    Examples
    --------
    >>> ledger = Ledger([Spend("count", scale=4.0), Spend("check", scale=2.0)])
    >>> ledger.total
    Fraction(3, 4)
    >>> print(ledger)
    count   1 draw(s) of scale 4, shift 1    ε = 0.25
    check   1 draw(s) of scale 2, shift 1    ε = 0.5
    total                                    ε = 0.75
    """

    __slots__ = ()

    def __new__(cls, spends: Iterable[Spend] = ()) -> Ledger:
        """A ledger of these spends."""
        return super().__new__(cls, spends)

    @property
    def total(self) -> Fraction:
        """What one record can lose in all: the ε that the draws together cost, exactly."""
        return sum((spend.cost for spend in self), Fraction(0))

    def __str__(self) -> str:
        names = [*(spend.what for spend in self), "total"]
        draws = [*(f"{s.touches} draw(s) of scale {s.scale:.6g}, shift {s.shift}" for s in self), ""]
        costs = [*(float(spend.cost) for spend in self), float(self.total)]
        first, second = (max(map(len, column)) for column in (names, draws))
        rows = zip(names, draws, costs, strict=True)
        return "\n".join(f"{name:{first}}   {draw:{second}}    ε = {cost:.6g}" for name, draw, cost in rows)


def check_epsilon(epsilon: float) -> float:
    """The budget as a float, refused unless it is a positive finite number."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, Real):
        raise TypeError(f"epsilon must be a number, not {type(epsilon).__name__}")
    if not 0 < epsilon < math.inf:  # so, because whole numbers may be too long for a float
        raise ValueError(f"epsilon must be positive and finite, not {epsilon!r}")
    if not 2.0**-64 <= epsilon <= 2.0**40:
        raise ValueError(
            f"epsilon must lie between 2^-64 and 2^40, not {epsilon!r}: less says nothing, more hides nothing"
        )
    return float(epsilon)


def scale_for(cost: float | Fraction) -> float:
    """A noise scale, as small as a float can be, whose exact cost for a shift of one is at most ``cost``.

    >>> Spend("count", scale_for(Fraction(1, 3))).cost <= Fraction(1, 3)
    True
    """
    scale = float(1 / cost)
    while Fraction(scale) * Fraction(cost) < 1:
        scale = math.nextafter(scale, math.inf)
    return scale


def level_start(level: int, epsilon: float) -> int:
    """The time ``t_r = ⌈2^r/ε⌉`` at which level ``r`` starts, exactly.

    >>> [level_start(r, 0.5) for r in range(4)]
    [2, 4, 8, 16]
    """
    return math.ceil((1 << level) / Fraction(epsilon))


def level_at(t: int, epsilon: float) -> int:
    """The level of time ``t``: the largest ``r`` with ``t_r ≤ t``, or −1 before the first one.

    Levels of length zero (``t_r = t_{r+1}``, possible when ε > 1) are never the level of any time.

    >>> [level_at(t, 0.5) for t in (1, 2, 3, 4, 8)]
    [-1, 0, 0, 1, 2]
    """
    return math.floor(Fraction(epsilon) * t).bit_length() - 1


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
