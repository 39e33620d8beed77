"""Private choice of pairs over whole-number scores, exactly: permute-and-flip, and the exponential mechanism for ρ.

In permute-and-flip candidates are looked at in random order, and the first whose coin falls heads is chosen; the coin
of a candidate with score ``s`` falls heads with probability ``exp(−(best − s)/scale)``, so the best one's always does
(McKenna and Sheldon 2020). A geometric variable ``G`` with ``P(G ≥ n) = exp(−n/scale)`` decides it: heads if
``G ≥ best − s``. Scores are integers and ``G`` is exact, so no rounding takes part.

Formal guarantees
-----------------
If replacing a record moves no score by more than ``Δ``, one choice is ``2Δ/scale``-differentially private, whatever the
candidates are, as long as they are public. `SENSITIVITY` is the ``Δ`` of `distance` (`proofs/marginals.md`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.public.partition import Integers
from headwater.secret.noise import Noise

SENSITIVITY = 2
"""Replacing a record moves two counts of a table by one each, so their distance from public numbers moves by 2."""


def distance(counts: Integers, predicted: Integers) -> int:
    return int(np.abs(counts - predicted).sum())


def choose_exponentially(scores: Sequence[int], scale: float, noise: Noise, hi: int, lo: int) -> int:
    """The index of the candidate that the exponential mechanism chooses: ``P(i) ∝ exp(score_i/scale)``."""
    below, count = max(scores) - np.array(scores, dtype=np.int64), len(scores)
    even = np.uint64((1 << 64) // count * count - 1)  # words beyond it would favour the first candidates
    for first in range(0, 1 << 24, _TOGETHER):
        addresses = np.uint64(lo + first) + np.arange(_TOGETHER, dtype=np.uint64)
        words = noise.uniform_at(hi, addresses)[:, 0]
        taken = (words % np.uint64(count)).astype(np.int64)
        accepted = (words <= even) & (noise.geometric_at(scale, hi, addresses) >= below[taken])
        if accepted.any():
            return int(taken[accepted.argmax()])
    raise RuntimeError("no candidate was accepted in 2^24 attempts, which has a probability below e^-8000")


def choose(scores: Sequence[int], scale: float, noise: Noise, hi: int, lo: int) -> int:
    """The index of the candidate that permute-and-flip chooses: of those whose coins fall heads, a random one."""
    best, addresses = max(scores), np.uint64(lo) + np.arange(len(scores), dtype=np.uint64)
    heads = noise.geometric_at(scale, hi, addresses) >= best - np.array(scores, dtype=np.int64)
    places = noise.uniform_at(hi, addresses)
    order = [(int(high), int(low), i) for i, (high, low) in enumerate(places) if heads[i]]
    first = min(order)
    tied = [i for high, low, i in order if (high, low) == first[:2]]
    more = 0
    while len(tied) > 1:  # of probability 2^−128 a pair; without it the order would not be quite even
        words = {i: noise.further_word(hi, lo + i, _TIES, more) for i in tied}
        tied = [i for i in tied if words[i] == min(words.values())]
        more += 1
    return tied[0]


_TOGETHER = 256  # attempts that are made at once
_TIES = 1 << 60  # the label of words that break ties: beyond those that noise uses for its own
