"""The immutable result: what may be published."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwater import files
from headwater.partition import Cells, Partition, Points
from headwater.publish.bounds import ErrorBound, error_bound
from headwater.publish.sampling import sample
from headwater.wall import Facts

_BANNER = "headwater release 1: may be published"


@dataclass(frozen=True, eq=False)
class Release:
    """A synthetic data set of ``t`` points. Private from here on: share it, keep it, ask it as often as you like.

    Formal guarantees
    -----------------
    A release is computed from noisy counts and public randomness. All releases of one run together, of which there
    may be infinitely many, are ε-differentially private for replacing one record of the stream.

    Attributes
    ----------
    facts
        ``t``, ε, the dimension and the mechanism.
    depth, cells, counts
        How many points lie in each cell of this depth; cells that hold none are left out.
    seed
        Of the points' places inside their cells. Public.
    """

    facts: Facts
    depth: int
    cells: Cells
    counts: NDArray[np.int64]
    seed: int

    def __post_init__(self) -> None:
        for array in (self.cells, self.counts):
            array.flags.writeable = False

    @property
    def t(self) -> int:
        """How many records had arrived, and how many points this release holds."""
        return self.facts.t

    @property
    def epsilon(self) -> float:
        """The privacy budget of the whole run, this release included."""
        return self.facts.epsilon

    @property
    def mechanism(self) -> str:
        """The name of the mechanism that measured."""
        return self.facts.mechanism

    @cached_property
    def error_bound(self) -> ErrorBound:
        """What the theorem behind the mechanism says of this release's expected W1."""
        return error_bound(self.facts)

    def points(self) -> Points:
        """The synthetic data set, a new array of shape ``(t, d)``; the same numbers every time."""
        partition = Partition(self.facts.dimension)
        rng = np.random.default_rng(self.seed)
        return sample(partition, self.depth, self.cells, self.counts, rng)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release to a file that anyone may see."""
        facts = self.facts
        header = {
            "t": facts.t,
            "epsilon": facts.epsilon,
            "dimension": facts.dimension,
            "mechanism": facts.mechanism,
            "depth": self.depth,
            "seed": self.seed,
        }
        files.write(path, _BANNER, header, {"cells": self.cells, "counts": self.counts}, mode=0o644)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Release:
        """Read a release that `save` wrote."""
        header, arrays = files.read(path, _BANNER)
        facts = Facts(header["t"], header["epsilon"], header["dimension"], header["mechanism"])
        return Release(facts, header["depth"], arrays["cells"], arrays["counts"], header["seed"])

    def __str__(self) -> str:
        cube = f"[0,1]^{self.facts.dimension}"
        return f"release of {self.t:,} points in {cube} (ε = {self.epsilon:g}, {self.mechanism})"
