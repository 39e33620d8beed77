"""Streams that every benchmark and every figure is made from: rows in order of arrival, values in ``[0, 1)``.

A stream is fixed by its name, length, dimension and seed. A shorter one is not the beginning of a longer one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]

LENGTH = 131_072
_BELOW_ONE = 1 - 1e-9


def uniform(n: int = LENGTH, d: int = 2, seed: int = 0) -> Points:
    """Independent points, spread evenly over the cube."""
    return np.random.default_rng(seed).random((n, d))


def blobs(n: int = LENGTH, d: int = 2, seed: int = 0) -> Points:
    """Twenty round clusters of standard deviation 0.03 and uneven sizes that do not move."""
    rng = np.random.default_rng(seed)
    centres = rng.random((20, d))
    sizes = rng.dirichlet(np.full(20, 0.7))
    members = rng.choice(20, n, p=sizes)
    return np.clip(centres[members] + 0.03 * rng.normal(size=(n, d)), 0, _BELOW_ONE)


def drift(n: int = LENGTH, d: int = 2, seed: int = 0) -> Points:
    """One cluster of standard deviation 0.05 that crosses the cube along its diagonal, once."""
    rng = np.random.default_rng(seed)
    centre = 0.2 + 0.6 * np.linspace(0, 1, n)
    return np.clip(centre[:, None] + 0.05 * rng.normal(size=(n, d)), 0, _BELOW_ONE)


STREAMS: dict[str, Callable[..., Points]] = {"uniform": uniform, "blobs": blobs, "drift": drift}
