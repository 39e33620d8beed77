"""What every counter can do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from headwater.noise import Noise, NoiseStream, warn_of_seed
from headwater.privacy import Ledger


class Counter(Protocol):
    """A running sum of non-negative whole numbers that may be read after every step.

    Formal guarantees
    -----------------
    Two streams of increments are neighbours when one increment differs by one. The sequence of all counts that
    could be read, taken together, is ``budget().total``-differentially private.
    """

    def add(self, increment: int) -> None:
        """Take one time step.

        Parameters
        ----------
        increment
            How many things to be counted happened in this step.
        """

    @property
    def count(self) -> int:
        """The private count so far. Reading it costs nothing and changes nothing."""

    def budget(self) -> Ledger:
        """Every kind of draw that one increment can move."""

    def error_bound(self, beta: float = 0.05) -> float:
        """At this step, ``|count − true count|`` exceeds this with a probability of at most ``beta``.

        Parameters
        ----------
        beta
            The probability with which the bound may be exceeded.
        """


def check_increment(increment: int) -> int:
    """An increment as an int, refused unless it is a non-negative whole number."""
    if (value := _whole("an increment", increment)) < 0:
        raise ValueError("an increment must not be negative: counters only count up")
    return value


def stream_of(noise: NoiseStream | None, seed: int | None) -> NoiseStream:
    """The stream that a counter draws from: the one it was given, or one of its own."""
    if noise is not None:
        return noise
    if seed is not None:
        warn_of_seed(4)
    return Noise(seed).stream()


def check_horizon(horizon: int) -> int:
    """A horizon as an int, refused unless it is a non-negative whole number."""
    if (value := _whole("the horizon", horizon)) < 0:
        raise ValueError(f"the horizon must not be negative, but is {value}")
    return value


def _whole(what: str, number: int) -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{what} must be a whole number, not {type(number).__name__}")
    return number.__index__()


def check_beta(beta: float) -> float:
    """A probability of failure, refused unless it lies strictly between 0 and 1."""
    if not 0 < beta < 1:
        raise ValueError(f"beta must lie strictly between 0 and 1, not {beta!r}")
    return beta


def laplace_sum_bound(scales: Sequence[float], beta: float) -> float:
    """A bound that the sum of independent integer Laplace draws exceeds, in size, with probability at most ``beta``.

    Chernoff: ``E exp(sZ) ≤ 1/(1 − s²σ²)`` for ``|s| < 1/σ`` (an integer Laplace draw is dominated by a real one of
    the same scale), minimised over a grid of ``s``.
    """
    check_beta(beta)
    if not scales:
        return 0.0
    widest = max(scales)
    slopes = (share / 256 / widest for share in range(1, 256))
    return min((math.log(2 / beta) - sum(math.log1p(-((s * scale) ** 2)) for scale in scales)) / s for s in slopes)
