"""When a segment of Algorithm 2 is sealed, without drawing the noise of every step.

While a segment's count is ``N``, each step seals it with the probability ``p`` that an integer Laplace draw exceeds
``threshold − N``. The chance that it has not been sealed is a product of such steps, so one uniform number ``V``
decides the moment: the first step by which ``1 − Π(1 − p) > V``.

Formal guarantees
-----------------
The moment has exactly the law of testing step by step. ``V`` has endlessly many bits, of which the first 128 are
looked at; floating point decides only where its error bound leaves no doubt, and everything else is settled
in `settle_exactly` with as many bits and decimals as it takes. No possible moment has probability zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Sealed = tuple[int, int]  # the step of a seal, and the segment's count then

DOUBT = 1e-9
"""Relative distance within which exact arithmetic decides: floating point errs some thousand times less."""


def chance_above(margin: Integers, scale: float) -> Floats:
    """``P(Z > margin)`` for integer Laplace ``Z`` of this scale: what one step seals with."""
    q = math.exp(-1 / scale)
    tail = np.exp(-np.abs(np.where(margin >= 0, margin + 1, margin)) / scale) / (1 + q)
    return np.where(margin >= 0, tail, 1 - tail)


def hazard(margin: Integers, scale: float) -> Floats:
    """``−log(1 − P(Z > margin))``, without cancellation on either side."""
    q = math.exp(-1 / scale)
    upper = np.exp(-(np.maximum(margin, 0) + 1) / scale) / (1 + q)
    lower = np.maximum(-margin, 0) / scale + math.log1p(q)
    return np.where(margin >= 0, -np.log1p(-upper), lower)


def as_float(words: NDArray[np.uint64]) -> Floats:
    """Rows of two words as numbers in [0, 1), to full relative precision down to ``2^−75``."""
    value: Floats = words[:, 0] * 2.0**-64 + words[:, 1] * 2.0**-128
    return np.minimum(value, 1 - 2.0**-53)


@dataclass(frozen=True)
class Segment:
    """One open segment, as seen at step ``now``: its margin while empty, and the steps at which points arrived.

    ``begin`` is the last step before the segment. Arrivals are distinct, sorted, after ``begin`` and at most ``now``.
    """

    margin: int
    scale: float
    begin: int
    now: int
    arrivals: Integers

    def stretches(self) -> tuple[Integers, Integers]:
        """The first step of each stretch of constant count 0, 1, 2, …, and the stretches' lengths."""
        starts = np.concatenate([[self.begin + 1], self.arrivals])
        return starts, np.diff(starts, append=self.now + 1)

    def sealed_at(self, words: NDArray[np.uint64], further: Callable[[int], int]) -> Sealed | None:
        """The step at which the segment is sealed and its count then; ``None`` if it is still open at ``now``.

        ``words`` are the first 128 bits of ``V`` and ``further(i)`` the 64-bit words that follow.
        """
        starts, lengths = self.stretches()
        rates = hazard(self.margin - np.arange(len(starts)), self.scale)
        ends = np.cumsum(rates * lengths)
        v = float(as_float(words[None])[0])
        wait = -math.log1p(-v)
        stretch = int(np.searchsorted(ends, wait))
        if stretch == len(ends):
            step, lower, upper = None, float(ends[-1]), math.inf
        else:
            before = float(ends[stretch - 1]) if stretch else 0.0
            offset = min(max(math.ceil((wait - before) / rates[stretch]), 1), int(lengths[stretch]))
            step = int(starts[stretch]) + offset - 1
            lower, upper = before + rates[stretch] * (offset - 1), before + rates[stretch] * offset
        doubt = DOUBT + len(ends) * 2.0**-52  # the sum's own rounding
        sure = lower * (1 + doubt) < wait < upper * (1 - doubt)
        if not (sure and 2.0**-75 < v < 1 - 2.0**-20):
            return self.settle_exactly(words, further)
        return None if step is None else (step, stretch)

    def settle_exactly(self, words: NDArray[np.uint64], further: Callable[[int], int]) -> Sealed | None:
        """The same as `sealed_at`, in exact arithmetic: slow, and needed about once in a million segments."""
        bits, known = int(words[0]) << 64 | int(words[1]), 128
        while True:
            # V lies in [bits, bits + 1)·2^−known, and decimals err by less than 2^−known: look a little beyond both.
            ends = [self._sealed_for(Fraction(bits + beyond, 1 << known), known) for beyond in (-1, 2)]
            if ends[0] == ends[1]:
                return ends[0]
            bits, known = bits << 64 | further(known // 64 - 2), known + 64

    def _sealed_for(self, v: Fraction, bits: int) -> Sealed | None:
        """Where ``1 − Π(1−p)`` first exceeds ``v``, with an absolute error in ``v`` far below ``2^−bits``."""
        if v >= 1:
            return None
        context = Context(prec=bits // 3 + 30, Emin=MIN_EMIN, Emax=MAX_EMAX)
        q = context.exp(context.divide(Decimal(-1), Decimal(self.scale)))
        target = context.ln(context.divide(Decimal((1 - v).numerator), Decimal((1 - v).denominator)))
        total = Decimal(0)
        starts, lengths = (array.tolist() for array in self.stretches())
        for count, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            log_stay = _log_stay(self.margin - count, q, context)
            after = context.add(total, context.multiply(log_stay, Decimal(length)))
            if after < target:
                return start + int(context.divide(context.subtract(target, total), log_stay)), count
            total = after
        return None


def _log_stay(margin: int, q: Decimal, context: Context) -> Decimal:
    """``log P(Z ≤ margin)``, in decimals."""
    one = Decimal(1)
    if margin >= 0:
        return context.ln(context.subtract(one, context.divide(context.power(q, margin + 1), context.add(one, q))))
    return context.ln(context.divide(context.power(q, -margin), context.add(one, q)))
