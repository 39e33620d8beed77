"""Confidence bounds on a probability, and on the logarithm of a ratio of two, from counts.

Formal guarantees
-----------------
`lower` and `upper` are the one-sided bounds of Clopper and Pearson: each is wrong with a probability of at most its
``alpha``, for every true probability and every number of runs. `epsilon_lower` and `delta_lower` use one of each, at
half their ``alpha``, so they exceed what they are bounds of with a probability of at most ``alpha``.
"""

from __future__ import annotations

import math

try:
    from scipy.special import betainccinv, betaincinv
except ImportError as error:  # when the audit is imported, not after an hour of it
    raise ImportError("the audit needs SciPy, which is not installed: pip install 'headwater[audit]'") from error


def lower(hits: int, runs: int, alpha: float) -> float:
    _check(hits, runs, alpha)
    return float(betaincinv(hits, runs - hits + 1, alpha)) if hits else 0.0


def upper(hits: int, runs: int, alpha: float) -> float:
    _check(hits, runs, alpha)
    return float(betainccinv(hits + 1, runs - hits, alpha)) if hits < runs else 1.0


def epsilon_lower(hits: tuple[int, int], runs: tuple[int, int], alpha: float, delta: float = 0.0) -> float:
    """A bound on ε by an event: (ε, δ)-privacy has ``p ≤ exp(ε)·q + δ``, so ε is at least ``log((p − δ)/q)``.

    Hits and runs are of the stream where the event should be likelier, then of the other.
    """
    p, q = lower(hits[0], runs[0], alpha / 2), upper(hits[1], runs[1], alpha / 2)
    return max(math.log((p - delta) / q), 0.0) if p > delta else 0.0


def delta_lower(hits: tuple[int, int], runs: tuple[int, int], alpha: float, epsilon: float) -> float:
    """A bound on δ by an event, whose hits and runs are those of `epsilon_lower`: it is at least ``p − exp(ε)·q``."""
    p, q = lower(hits[0], runs[0], alpha / 2), upper(hits[1], runs[1], alpha / 2)
    return max(p - math.exp(min(epsilon, 700.0)) * q, 0.0)


def _check(hits: int, runs: int, alpha: float) -> None:
    if not (0 <= hits <= runs and runs > 0 and 0 < alpha < 1):
        raise ValueError(f"no bound for {hits} hits in {runs} runs at alpha = {alpha!r}")
