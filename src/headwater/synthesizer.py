"""The story in one file: records go in, the mechanism measures, a release comes out."""

from __future__ import annotations

import hashlib
import os
import secrets
import warnings
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from headwater import files
from headwater.measure.budget import check_epsilon
from headwater.measure.noise import Noise
from headwater.measure.paper import PaperMechanism
from headwater.measure.pmm import PmmMechanism
from headwater.partition import Cells, Partition
from headwater.publish.consistency import STRATEGIES, Layer
from headwater.publish.release import Release
from headwater.table.unit_cube import UnitCube
from headwater.wall import Facts, Report

_BANNER = "headwater state 1: SECRET, protect it like the data it was made from"
_MECHANISMS = {"paper": PaperMechanism}


class SeededRunWarning(UserWarning):
    """A run with a seed can be repeated by anyone who guesses the seed: it protects nobody."""


class Synthesizer:
    """Turns a stream of records into synthetic data that may be published at any moment, under one fixed ε.

    Parameters
    ----------
    schema
        What a record is. `headwater.unit_cube` is the schema of arrays in ``[0,1]^d``.
    epsilon
        The privacy budget of the whole run, however long it lasts and however many releases are taken.
    mechanism
        ``"paper"``: Algorithms 1 to 4 of He, Vershynin and Zhu.
    consistency
        How noisy counts are made to add up: ``"halving"`` or ``"proportional"``.
    seed
        For tests only: makes the run repeatable, and so protects nobody.

    Formal guarantees
    -----------------
    All releases of one run, taken together, are ε-differentially private under replacing one record (event level).
    How many records arrived is public.

    Examples
    --------
    >>> import numpy as np
    >>> synth = Synthesizer(UnitCube(2), epsilon=1.0)
    >>> synth.update(np.random.default_rng(0).random((1000, 2)))
    >>> release = synth.release()
    >>> release.points().shape
    (1000, 2)
    """

    def __init__(
        self,
        schema: UnitCube,
        *,
        epsilon: float,
        mechanism: str = "paper",
        consistency: str = "halving",
        seed: int | None = None,
    ) -> None:
        if not isinstance(schema, UnitCube):
            raise TypeError(f"schema must be a schema such as unit_cube(2), not {type(schema).__name__}")
        self.schema = schema
        self.epsilon = check_epsilon(epsilon)
        self.mechanism = _choose("mechanism", mechanism, _MECHANISMS)
        self.consistency = _choose("consistency", consistency, STRATEGIES)
        noise, self._public = _randomness(seed)
        self._measure = _MECHANISMS[mechanism](schema.dimension, self.epsilon, noise)

    @property
    def t(self) -> int:
        """How many records have arrived. Public."""
        return self._measure.t

    def update(self, points: object) -> None:
        """Take one record or a batch of them, in order of arrival.

        A batch gives exactly what its records one by one would give. A batch with anything wrong in it is refused
        whole, and nothing of it is counted.
        """
        self._measure.update(self.schema.encode(points))

    def release(self) -> Release:
        """The synthetic data set of this moment. Costs no further ε; asking again gives the same one."""
        return _release(self._measure, self.consistency, self._public)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything that is needed to go on. The file is as secret as the data; only its owner can read it."""
        header, arrays = self._measure.state()
        header |= {
            "dimension": self.schema.dimension,
            "epsilon": self.epsilon,
            "mechanism": self.mechanism,
            "consistency": self.consistency,
            "key": self._measure.noise.key.hex(),
            "public": self._public.hex(),
        }
        files.write(path, _BANNER, header, arrays, mode=0o600)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Synthesizer:
        """Go on from where `save` was called, with the very same noise.

        Go on **once**: two runs from one file publish the same noise on different data.
        """
        header, arrays = files.read(path, _BANNER)
        synth = cls(
            UnitCube(header["dimension"]),
            epsilon=header["epsilon"],
            mechanism=header["mechanism"],
            consistency=header["consistency"],
        )
        synth._measure.noise = Noise(key=bytes.fromhex(header["key"]))
        synth._public = bytes.fromhex(header["public"])
        synth._measure.restore(header, arrays)
        return synth


def pmm(
    points: object, schema: UnitCube, *, epsilon: float, consistency: str = "halving", seed: int | None = None
) -> Release:
    """One ε-private release of a data set that is already complete.

    >>> pmm([[0.1, 0.2], [0.3, 0.9]], UnitCube(2), epsilon=2.0).points().shape
    (2, 2)
    """
    noise, public = _randomness(seed)
    measured = PmmMechanism(schema.encode(points), schema.dimension, check_epsilon(epsilon), noise)
    return _release(measured, _choose("consistency", consistency, STRATEGIES), public)


class _Measured(Protocol):
    """What a release is made from: public facts, and reports on the cells that are asked for."""

    @property
    def name(self) -> str: ...
    @property
    def t(self) -> int: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def depth(self) -> int: ...
    @property
    def partition(self) -> Partition: ...

    def report(self, depth: int, cells: Cells) -> Report: ...


def _release(measured: _Measured, consistency: str, public: bytes) -> Release:
    """Walk down the tree: report on a depth's cells, make it consistent, go on below the cells that hold points."""
    seed = int.from_bytes(hashlib.sha256(public + measured.t.to_bytes(16, "little")).digest()[:16], "little")
    rng = np.random.default_rng([seed, 1])  # apart from the generator that places the points
    layer = Layer.root(measured.t)
    for depth in range(1, measured.depth + 1):
        layer = layer.refine(measured.report(depth, layer.children()), STRATEGIES[consistency], rng)
    facts = Facts(measured.t, measured.epsilon, measured.partition.dimension, measured.name)
    return Release(facts, layer.depth, layer.cells, layer.counts, seed)


def _randomness(seed: int | None) -> tuple[Noise, bytes]:
    """The protecting noise, and a key for public randomness that owes nothing to it."""
    if seed is None:
        return Noise(), secrets.token_bytes(32)
    warnings.warn("seed= is for tests: a seeded run protects nobody", SeededRunWarning, stacklevel=3)
    return Noise(seed), hashlib.sha256(b"headwater public seed %d" % seed).digest()


def _choose(what: str, name: str, known: Mapping[str, object]) -> str:
    if name not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}, not {name!r}")
    return name
