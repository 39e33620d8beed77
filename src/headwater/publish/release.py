"""The immutable result: what may be published."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater import files
from headwater.partition import Cells, Points
from headwater.publish.bounds import ErrorBound, ExpectedError, error_bound, expected_error
from headwater.publish.sampling import sample
from headwater.table.frames import TABLE_KINDS
from headwater.table.schema import schema_from_dict
from headwater.table.unit_cube import UnitCube
from headwater.wall import AnySchema, Facts

_BANNER = "headwater release 2: may be published"
_SEED = (1 << 128) - 1  # the largest there is


@dataclass(frozen=True, eq=False)
class Leaves:
    """Cells of any depths that do not overlap, and how many points each of them holds."""

    cells: Cells
    depths: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        for array in (self.cells, self.depths, self.counts):
            array.flags.writeable = False


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A synthetic data set of ``t`` points. Private from here on: share it, keep it, ask it as often as you like.

    Formal guarantees
    -----------------
    A release is computed from noisy counts and public randomness. All releases of one run together, of which there
    may be infinitely many, are ε-differentially private for replacing one record of the stream.

    Attributes
    ----------
    facts
        ``t``, ε, the schema and the mechanism.
    start
        The release is about the records after the first ``start`` ones: 0 unless a window was asked for.
    leaves
        How many points lie in which cells; cells that hold none are left out.
    spread
        What the mechanism knows of its own error, from public numbers; ``None`` if it knows nothing.
    seed
        Of the points' places inside their cells. Public.
    kind
        Of tables that came in last, such as ``"pandas"``: what `sample` gives back.
    """

    facts: Facts
    start: int
    leaves: Leaves
    spread: float | None
    seed: int
    kind: str | None = None

    @property
    def t(self) -> int:
        """How many records had arrived."""
        return self.facts.t

    @property
    def span(self) -> tuple[int, int]:
        """Which records this is about: from the first number, which is excluded, to the second, which is included."""
        return self.start, self.t

    @property
    def epsilon(self) -> float:
        """The privacy budget of the whole run, this release included."""
        return self.facts.epsilon

    @property
    def mechanism(self) -> str:
        """The name of the mechanism that measured."""
        return self.facts.mechanism

    @property
    def schema(self) -> AnySchema:
        """What a record is."""
        return self.facts.schema

    @cached_property
    def error_bound(self) -> ErrorBound:
        """What the theorem behind the mechanism says of this release's expected W1."""
        return error_bound(self.facts, self.start)

    def expected_error(self) -> ExpectedError:
        """How far this release is likely to be from the data, in W1, from public numbers only."""
        return expected_error(self.spread, self.t - self.start)

    def points(self) -> Points:
        """The synthetic data set, a new array of shape ``(t, d)``; the same numbers every time.

        Points come cell by cell. A window holds as many points as records arrived in it.
        """
        partition, leaves = self.schema.partition, self.leaves
        rng = np.random.default_rng(self.seed)
        even = self.mechanism == "cascade"
        return sample(partition, leaves.cells, leaves.depths, leaves.counts, rng, even=even)

    def sample(self, kind: str | None = None) -> Any:  # noqa: ANN401 - which kind is known only when it runs
        """The synthetic data set as a table of the kind that came in, or of the one asked for; the same every time.

        Records come in a random order that means nothing. Kinds are ``"pandas"``, ``"polars"``, ``"arrow"``,
        ``"columns"``, ``"records"`` and ``"numpy"``.
        """
        if kind is not None and not isinstance(kind, str):
            raise TypeError(f"kind must be the name of a kind of table, such as 'pandas', not {type(kind).__name__}")
        points, order = self._shuffled()
        return self.schema.decode(points.take(order, axis=0), kind or self.kind)

    def tables(self, kind: str | None = None, rows: int = 1 << 17) -> Iterator[Any]:
        """The rows of `sample`, in the same order, so many at a time: for writing without holding all of them."""
        points, order = self._shuffled()
        for start in range(0, max(len(order), 1), rows):
            yield self.schema.decode(points.take(order[start : start + rows], axis=0), kind or self.kind)

    def _shuffled(self) -> tuple[Points, NDArray[np.int64]]:
        """The points, and the order in which a table shows them: cell by cell it would look odd."""
        points = self.points()
        return points, np.random.default_rng([self.seed, 2]).permutation(len(points))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release to a file that anyone may see."""
        facts = self.facts
        header = {
            "t": facts.t,
            "epsilon": facts.epsilon,
            "schema": facts.schema.to_dict(),
            "mechanism": facts.mechanism,
            "start": self.start,
            "spread": self.spread,
            "seed": self.seed,
            "kind": self.kind,
        }
        leaves = self.leaves
        arrays = {"cells": leaves.cells, "depths": leaves.depths, "counts": leaves.counts}
        files.write(path, _BANNER, header, arrays, mode=0o644)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Release:
        """Read a release that `save` wrote."""
        header, arrays = files.read(path, _BANNER)
        with files.believing(str(path)):
            facts = Facts(header["t"], header["epsilon"], schema_from_dict(header["schema"]), header["mechanism"])
            leaves = Leaves(arrays["cells"], arrays["depths"], arrays["counts"])
            release = Release(facts, header["start"], leaves, header["spread"], header["seed"], header["kind"])
            _check(release)
        return release

    def __str__(self) -> str:
        cube = isinstance(self.schema, UnitCube)
        what = f"points in [0,1]^{self.schema.dimension}" if cube else f"records of {self.schema.dimension} columns"
        window = f", records {self.start + 1:,} to {self.t:,}" if self.start else ""
        return f"release of {self.t - self.start:,} {what} (ε = {self.epsilon:g}, {self.mechanism}{window})"

    __repr__ = __str__


def _check(release: Release) -> None:
    """Refuse a file whose numbers no release has: a checksum finds damage, not what was made up."""
    facts, leaves, spread, kind = release.facts, release.leaves, release.spread, release.kind
    for name, number, most in (
        ("t", facts.t, 1 << 60),
        ("start", release.start, facts.t),
        ("seed", release.seed, _SEED),
    ):
        files.need(type(number) is int and 0 <= number <= most, name)
    files.need(type(facts.epsilon) is float and 0 < facts.epsilon < math.inf, "epsilon")
    files.need(isinstance(facts.mechanism, str), "mechanism")
    files.need(spread is None or (type(spread) is float and spread >= 0), "spread")
    files.need(kind is None or (not isinstance(facts.schema, UnitCube) and kind in TABLE_KINDS), "kind")
    cells, depths, counts = leaves.cells, leaves.depths, leaves.counts
    files.need(cells.ndim == 1 and cells.shape == depths.shape == counts.shape, "cells, depths and counts")
    files.need([a.dtype.str for a in (cells, depths, counts)] == ["<u8", "<i8", "<i8"], "cells, depths and counts")
    files.need(bool(((depths >= 0) & (depths <= facts.schema.partition.deepest)).all()), "depths")
    files.need(not (cells >> depths.astype(np.uint64)).any(), "cells")
    files.need(bool(((counts > 0) & (counts <= facts.t)).all()), "counts")
    files.need(sum(counts.tolist()) == facts.t - release.start, "counts")
