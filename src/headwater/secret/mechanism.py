"""What mechanisms that cut the cube keep of a record: the number of the small cell that it lies in."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headwater.public.budget import Budget, Ledger
from headwater.public.files import need, whole_number
from headwater.public.partition import Points
from headwater.public.protocol import AnySchema, Arrays, Header, Measured, Options, Rows, State, modules_of
from headwater.secret.noise import Noise


def mechanism_class(name: str) -> type[Mechanism]:
    found: type[Mechanism] = import_module(modules_of(name)[0]).MECHANISM
    return found


class Mechanism(Protocol):
    """Takes records in order of arrival, and measures them under one budget, for ever.

    Parameters
    ----------
    budget
        Of the whole run: pure ε only, unless `deltas` says otherwise.
    **options
        Of `options`.

    Formal guarantees
    -----------------
    Everything that `measured` ever returns, for all times and windows together, is ε-differentially private for
    replacing one record, also by a null record; `ledger` lists the draws. Every draw has an address
    (`headwater.secret.noise`), so asking twice, asking never, a batch or its records one by one, and going on from a
    saved state all give the same numbers.
    """

    name: ClassVar[str]
    online: ClassVar[bool]
    """Whether records can be taken one after another; if not, only all at once."""
    windows: ClassVar[bool]
    """Whether it can measure the last records alone."""
    thresholds: ClassVar[bool]
    """Whether it compares true counts with noisy thresholds (sparse vector), besides adding noise to counts."""
    partitions: ClassVar[bool]
    """Whether each of its measurements counts every record of some span exactly once."""
    deltas: ClassVar[bool]
    """Whether it takes a budget with a δ."""
    version: ClassVar[int]
    """Of the rule that decides what is measured: a rule that measures something else needs another number."""
    options: ClassVar[Options]
    """What else the constructor takes by name."""
    width: int
    """How many integers are kept of a record."""
    t: int
    """How many records have arrived."""
    noise: Noise

    def __init__(self, schema: AnySchema, budget: Budget | float, noise: Noise, **options: Any) -> None: ...  # noqa: ANN401

    def __copy__(self) -> Self:
        """A copy that can be updated while this one stays as it is."""

    def encode(self, points: Points) -> Rows:
        """What is kept of records, given as points of the schema's cube. Pure: reads nothing of the run."""

    def check(self, rows: NDArray[Any]) -> Rows:
        """Rows that were encoded elsewhere, or a `ValueError` that says what is wrong with them."""

    def update(self, rows: Rows) -> None:
        """Take records in order of arrival. Null records count in ``t`` and nowhere else."""

    def window(self, since: int) -> int:
        """Where the shortest window starts that `measured` has and that holds all records after the first ``since``."""

    def measured(self, start: int, seed: int) -> Measured:
        """All that is published about the records after the first ``start``, which `window` gave.

        ``seed`` is public randomness.
        """

    def ledger(self, t: int | None = None) -> Ledger:
        """Every draw that record number ``t + 1``, the next one unless given, can move, then or later."""

    def status(self) -> str:
        """How finely it measures at this time, in words. Public."""

    def state(self) -> State:
        """Everything that is needed to go on, but for the key of the noise: as secret as the data."""

    def restore(self, header: Header, arrays: Arrays) -> None:
        """Go on from a `state`, or refuse it (`headwater.public.files.FileRefusedError`) if no run can have left it."""


@runtime_checkable
class CountingMechanism(Mechanism, Protocol):
    """A mechanism that also takes counted records: other processes count, and this one adds counts and noise."""

    def bucket(self, number: int, until: int | None = None) -> tuple[int, int]:
        """The fastest bucket that record ``number`` (from 0) falls into: its first record, and its end. Pure.

        With ``until``, the slowest one whose faster buckets are never measured if the records up to number ``until``
        are taken at once.
        """

    def coarser(self, rows: Rows, number: int) -> Rows:
        """Rows of the bucket of record ``number`` without what no noisy count can ever distinguish. Pure."""

    def place_bits(self, axis: int) -> int:
        """How many binary digits of a coordinate on a continuous axis decide the row of a record. Pure."""

    def update_counts(self, rows: Rows, counts: NDArray[np.int64], until: int | None = None) -> None:
        """Take records of which ``counts`` have each row: in the order of their buckets, in any order inside these.

        Buckets are those of `bucket` with the same ``until``, which is how many records there are when the last of
        those that are taken at once has come; a bucket may come in several calls.

        The same as `update` with the records in order, for everything that is ever measured.
        """


NULL = np.uint64(2**64 - 1)
"""The row of a null record. No cell has this number: there are at most 2^62."""


def word(depth: int) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if depth <= 8 else np.uint32 if depth <= 32 else np.uint64


class CellRows:
    """Rows of one integer: the cell of depth `finest`, or `NULL`."""

    name: ClassVar[str]
    online: ClassVar[bool] = True
    windows: ClassVar[bool] = False
    thresholds: ClassVar[bool] = False
    partitions: ClassVar[bool] = False
    deltas: ClassVar[bool] = False
    version: ClassVar[int] = 1
    options: ClassVar[Options] = {}
    kept: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that a state holds: arrays of the type and shape that they have before the first record."""
    width = 1

    def __init__(self, schema: AnySchema, budget: Budget | float, noise: Noise) -> None:
        self.partition, self.noise, self.t = schema.partition, noise, 0
        self.budget = Budget.of(budget)
        self.epsilon = self.budget.epsilon
        self.finest = self.partition.deepest

    @property
    def depth(self) -> int:
        return self.finest

    def status(self) -> str:
        return f"depth {self.depth} of the partition"

    def window(self, since: int) -> int:
        if since:
            raise ValueError(f"the {self.name} mechanism has no windows; mechanism='cascade' can")
        return 0

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def encode(self, points: Points) -> Rows:
        return self.partition.cells(points, self.finest)[:, None]

    def place_bits(self, axis: int) -> int:
        return self.partition.order[: self.finest].count(axis)

    def check(self, rows: NDArray[Any]) -> Rows:
        """Cells that were found elsewhere, or an error that says what is wrong with them."""
        if rows.ndim != 2 or rows.shape[1] != 1:
            raise ValueError(f"rows must have shape (n, 1), as encode() gives them, not {rows.shape}")
        if rows.dtype.kind not in "iu" and rows.size:
            raise TypeError(f"rows must be whole numbers, not {rows.dtype}")
        if rows.size and (int(rows.min()) < 0 or int(rows.max()) >= 1 << self.finest):
            good = rows[rows != NULL] if rows.dtype == np.uint64 else rows
            if not good.size or (int(good.min()) >= 0 and int(good.max()) < 1 << self.finest):
                return rows.astype(np.uint64, copy=False)
            raise ValueError(f"rows must lie between 0 and 2^{self.finest} − 1, as encode() gives them")
        return rows.astype(np.uint64, copy=False)

    def state(self) -> State:
        return {"t": self.t, "version": self.version}, {name: getattr(self, name) for name in self.kept}

    def restore(self, header: Header, arrays: Arrays) -> None:
        need(header.get("version", self.version) == self.version, "version")
        self.t = whole_number(header["t"], "t")
        for name in self.kept:
            new, saved = getattr(self, name), arrays[name]
            need(saved.dtype == new.dtype and saved.shape == new.shape, name)
            setattr(self, name, saved)
