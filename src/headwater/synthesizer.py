"""The story in one file: records go in, the mechanism measures, a release comes out."""

from __future__ import annotations

import hashlib
import math
import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headwater import files
from headwater.measure.budget import check_epsilon
from headwater.measure.cascade import CascadeMechanism
from headwater.measure.cascade import histogram as count_cells
from headwater.measure.noise import Noise, warn_of_seed
from headwater.measure.paper import PaperMechanism
from headwater.measure.plan import Plan
from headwater.measure.pmm import PmmMechanism
from headwater.measure.restoring import restore
from headwater.partition import Cells
from headwater.publish.consistency import STRATEGIES, Layer
from headwater.publish.estimate import estimate, leaves, round_in_order
from headwater.publish.release import Leaves, Release
from headwater.table.cell_input import check_cells, check_counts
from headwater.table.frames import TABLE_KINDS, kind_of
from headwater.table.schema import Schema, schema_from_dict
from headwater.table.unit_cube import UnitCube
from headwater.wall import AnySchema, Facts, Report

_BANNER = "headwater state 2: SECRET, protect it like the data it was made from"
_MECHANISMS = {"cascade": CascadeMechanism, "paper": PaperMechanism}


class Synthesizer:
    """Turns a stream of records into synthetic data that may be published at any moment, under one fixed ε.

    Parameters
    ----------
    schema
        What a record is: `headwater.Schema` for tables, `headwater.unit_cube` for arrays in ``[0,1]^d``.
    epsilon
        The privacy budget of the whole run, however long it lasts and however many releases are taken.
    mechanism
        ``"cascade"``: buckets of time at a few speeds, trees chosen by earlier releases; the most accurate.
        ``"paper"``: Algorithms 1 to 4 of He, Vershynin and Zhu.
    consistency
        Of the paper's mechanism: how noisy counts are made to add up: ``"halving"`` or ``"proportional"``.
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
        schema: AnySchema,
        *,
        epsilon: float,
        mechanism: str = "cascade",
        consistency: str = "halving",
        seed: int | None = None,
    ) -> None:
        self.schema = _checked(schema)
        self.epsilon = check_epsilon(epsilon)
        self.mechanism = _choose("mechanism", mechanism, _MECHANISMS)
        self.consistency = _choose("consistency", consistency, STRATEGIES)
        noise, self._public = _randomness(seed)
        self._measure: CascadeMechanism | PaperMechanism = _MECHANISMS[mechanism](schema.partition, self.epsilon, noise)
        self._kind: str | None = None

    @property
    def t(self) -> int:
        """How many records have arrived. Public."""
        return self._measure.t

    def update(self, table: object) -> None:
        """Take one record or a batch of them, in order of arrival: any kind of table that the schema reads.

        A batch gives exactly what its records one by one would give. A batch with anything wrong in it is refused
        whole, and nothing of it is counted.
        """
        self._measure.take(self.locate(table))
        self._kind = _kind(self.schema, table)

    def locate(self, table: object) -> Cells:
        """What `update` keeps of a batch: the cell of every record. Not private.

        Reads and changes nothing of the run: any process with the same schema, ε and mechanism gets the same.
        """
        return self._measure.locate(self.schema.encode(table))

    def take(self, cells: object) -> None:
        """Take records as `locate` gave them, here or elsewhere. The same as `update` with the records themselves.

        A cell that holds no value of the schema counts as a record that is nowhere.
        """
        self._measure.take(check_cells(cells, self._measure.finest))

    def update_counts(self, cells: object, counts: object) -> None:
        """Take records that were counted elsewhere with `headwater.histogram`; the same as giving the records.

        Cells that are not named are zeros. At most `room` records can be taken at once. Cascade only.
        """
        cascade = self._cascade("update_counts")
        cascade.update_counts(*check_counts(cells, counts, cascade.partition, cascade.finest))

    def histogram(self, table: object) -> tuple[Cells, NDArray[np.int64]]:
        """`headwater.histogram` under this run's schema."""
        return histogram(table, self.schema)

    @property
    def room(self) -> int:
        """How many records `update_counts` can take at this moment. Public."""
        return self._cascade("room").room

    def plan(self, until: int | None = None) -> Plan:
        """The schedule of buckets, budgets and noise, up to some time: print it. Cascade only."""
        mechanism = self._cascade("plan")
        return mechanism.plan(max(2 * self.t, 1) if until is None else _whole("until", until))

    @property
    def run(self) -> str:
        """A name of this run, the same for ever and on all its cards. Public, and owes nothing to data or noise."""
        return hashlib.sha256(b"run" + self._public).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"Synthesizer({self.schema!r}, epsilon={self.epsilon:g}, mechanism={self.mechanism!r}) at t = {self.t:,}"

    @property
    def level(self) -> str:
        """How finely the mechanism looks at this time, in words. Public."""
        if isinstance(self._measure, CascadeMechanism):
            stage = self._measure.stage
            sizes = " and ".join(f"{speed.size:,}" for speed in stage.speeds)
            return f"records {stage.start:,} to {stage.end:,}, in buckets of {sizes}"
        return f"depth {self._measure.depth} of the partition"

    def release(self, *, last: int | None = None, since: int | None = None) -> Release:
        """The synthetic data set of this moment. Costs no further ε; asking again gives the same one.

        With ``last=n`` it is about the last ``n`` records only, with ``since=t0`` about those after the first ``t0``:
        made from the same summaries, so no further ε is spent. A window starts where some bucket did, so it may hold up
        to a bucket more than was asked for; ``release.span`` says what it covers. Cascade only.
        """
        since = _window(self.t, last, since)
        if isinstance(self._measure, CascadeMechanism):
            return replace(_from_summaries(self._measure, since, self.schema, self._public), kind=self._kind)
        if since:
            raise ValueError(f"the {self.mechanism} mechanism cannot tell windows apart; mechanism='cascade' can")
        return replace(_from_reports(self._measure, self.consistency, self.schema, self._public), kind=self._kind)

    def _cascade(self, what: str) -> CascadeMechanism:
        if not isinstance(self._measure, CascadeMechanism):
            raise ValueError(f"{what} needs mechanism='cascade'; this run uses {self.mechanism!r}")
        return self._measure

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything that is needed to go on. The file is as secret as the data; only its owner can read it."""
        header, arrays = self._state()
        files.write(path, _BANNER, header, arrays, mode=0o600)

    def to_bytes(self) -> bytes:
        """What `save` writes, as bytes: as secret as the data."""
        return files.pack(_BANNER, *self._state())

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        header, arrays = self._measure.state()
        header |= {
            "schema": self.schema.to_dict(),
            "epsilon": self.epsilon,
            "mechanism": self.mechanism,
            "consistency": self.consistency,
            "key": self._measure.noise.key.hex(),
            "public": self._public.hex(),
            "kind": self._kind,
        }
        return header, arrays

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Synthesizer:
        """Go on from where `save` was called, with the very same noise.

        Go on **once**: two runs from one file publish the same noise on different data.
        """
        header, arrays = files.read(path, _BANNER)
        with files.believing(str(path)):
            return cls._restored(header, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Synthesizer:
        """Go on from where `to_bytes` was called, **once**, like `load`."""
        header, arrays = files.unpack(data, _BANNER, "these bytes")
        with files.believing("these bytes"):
            return cls._restored(header, arrays)

    @classmethod
    def _restored(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Synthesizer:
        synth = cls(
            schema_from_dict(header["schema"]),
            epsilon=header["epsilon"],
            mechanism=header["mechanism"],
            consistency=header["consistency"],
        )
        synth._measure.noise = Noise(key=bytes.fromhex(header["key"]))
        synth._public = bytes.fromhex(header["public"])
        synth._kind = header["kind"]
        files.need(len(synth._public) == 32, "public")
        files.need(synth._kind is None or (isinstance(synth.schema, Schema) and synth._kind in TABLE_KINDS), "kind")
        restore(synth._measure, header, arrays)
        return synth


def histogram(table: object, schema: AnySchema) -> tuple[Cells, NDArray[np.int64]]:
    """Which cells a batch falls into, and how many records into each: for `Synthesizer.update_counts`. Not private.

    A pure function: any process with the same schema gets the same, and the owner of the run adds the counts.

    >>> cells, counts = histogram([[0.1, 0.2], [0.1, 0.2], [0.9, 0.9]], UnitCube(2))
    >>> counts.tolist()
    [2, 1]
    """
    schema = _checked(schema)
    return count_cells(schema.encode(table), schema.partition)


def pmm(
    table: object, schema: AnySchema, *, epsilon: float, consistency: str = "halving", seed: int | None = None
) -> Release:
    """One ε-private release of a data set that is already complete.

    >>> pmm([[0.1, 0.2], [0.3, 0.9]], UnitCube(2), epsilon=2.0).points().shape
    (2, 2)
    """
    noise, public = _randomness(seed)
    measured = PmmMechanism(_checked(schema).encode(table), schema.partition, check_epsilon(epsilon), noise)
    release = _from_reports(measured, _choose("consistency", consistency, STRATEGIES), schema, public)
    return replace(release, kind=_kind(schema, table))


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

    def report(self, depth: int, cells: Cells) -> Report: ...


def _from_reports(measured: _Measured, consistency: str, schema: AnySchema, public: bytes) -> Release:
    """Walk down the tree: report on a depth's cells, make it consistent, go on below the cells that hold points."""
    seed = _seed(public, measured.t, 0)
    rng = np.random.default_rng([seed, 1])  # apart from the generator that places the points
    layer = Layer.root(measured.t)
    for depth in range(1, measured.depth + 1):
        layer = layer.refine(measured.report(depth, layer.children()), STRATEGIES[consistency], rng, schema.partition)
    facts = Facts(measured.t, measured.epsilon, schema, measured.name)
    return Release(facts, 0, Leaves(layer.cells, np.full(len(layer.cells), layer.depth), layer.counts), None, seed)


def _from_summaries(measured: CascadeMechanism, since: int, schema: AnySchema, public: bytes) -> Release:
    """Pool what the buckets said, estimate a density from it, round it to whole points."""
    pooled = measured.pooled(since)
    density = estimate(pooled.pools, pooled.uncovered, measured.partition, pooled.counted)
    seed = _seed(public, measured.t, pooled.start)
    cells, depths, mass = leaves(density, [row for row, counts in enumerate([*pooled.counted, True]) if counts])
    some = mass > 0  # what rounding leaves over must not go where nothing can be
    cells, depths, mass = cells[some], depths[some], mass[some]
    counts = round_in_order(mass, measured.t - pooled.start, np.random.default_rng([seed, 1]).random())
    # Noise, the size of the leaves, and a third of the cube for every point that was placed by guess.
    sizes = np.array([schema.partition.diameter(depth) for depth in range(schema.partition.deepest + 1)])
    within = float(mass @ sizes[depths])
    spread = density.spread + 1.5 * within + pooled.uncovered / 3 if pooled.pools else math.inf
    facts = Facts(measured.t, measured.epsilon, schema, measured.name)
    held = counts > 0
    return Release(facts, pooled.start, Leaves(cells[held], depths[held], counts[held]), spread, seed)


def _seed(public: bytes, t: int, start: int) -> int:
    """Of a release's own randomness: public, the same whenever the same release is asked for."""
    text = b"".join(number.to_bytes(16, "little") for number in (t, start))
    return int.from_bytes(hashlib.sha256(public + text).digest()[:16], "little")


def _window(t: int, last: int | None, since: int | None) -> int:
    """How many of the first records a release leaves out."""
    if last is not None and since is not None:
        raise ValueError("give last= or since=, not both")
    if last is not None:
        if _whole("last", last) < 1:
            raise ValueError(f"last must be at least 1, not {last}")
        return max(t - last, 0)
    if since is not None and not 0 <= _whole("since", since) <= t:
        raise ValueError(f"since must lie between 0 and the number of records so far, {t}, but is {since}")
    return since or 0


def _whole(what: str, number: object) -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{what} must be a whole number, not {type(number).__name__}")
    return int(number.__index__())


def _randomness(seed: int | None) -> tuple[Noise, bytes]:
    """The protecting noise, and a key for public randomness that owes nothing to it."""
    if seed is None:
        return Noise(), secrets.token_bytes(32)
    noise = Noise(seed)
    warn_of_seed(4)
    return noise, hashlib.sha256(b"headwater public seed %d" % seed).digest()


def _choose(what: str, name: object, known: Mapping[str, object]) -> str:
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}, not {name!r}")
    return name


def _kind(schema: AnySchema, table: object) -> str | None:
    """What kind of table to give back for this one. Points of a cube are always an array."""
    return kind_of(table) if isinstance(schema, Schema) else None


def _checked(schema: object) -> AnySchema:
    if not isinstance(schema, Schema | UnitCube):
        raise TypeError(f"schema must be a Schema or unit_cube(d), not {type(schema).__name__}")
    return schema
