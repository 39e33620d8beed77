"""What a mechanism is: the part that reads records and measures them under one budget."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from headwater.public.budget import Budget, Ledger
from headwater.public.files import need, whole_number
from headwater.public.partition import Points
from headwater.public.protocol import AnySchema, Arrays, Header, Kept, Measured, Rows, Span, State, modules_of
from headwater.secret.batch import Batch
from headwater.secret.noise import Noise


def mechanism_class(name: str) -> type[Mechanism]:
    found: type[Mechanism] = import_module(modules_of(name)[0]).MECHANISM
    return found


class Mechanism(Protocol):
    """A value that has taken records in order of arrival, and measures them under one budget, for ever.

    Parameters
    ----------
    schema
        What a record is.
    budget
        Of one record in the whole run. A mechanism that keeps pure ε only refuses one with a δ.
    noise
        Where its draws come from.
    expect
        How many records are expected in all, if that was declared.

    Formal guarantees
    -----------------
    Everything that `measured` ever returns, for all times and windows together, is ε-differentially private for
    replacing one record, also by a null record; `ledger` lists the draws. Every draw has an address
    (`headwater.secret.noise`), so asking twice, asking never, a batch or its records one by one, and going on from a
    saved state all give the same numbers.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    """Of the rule that decides what is measured: a rule that measures something else needs another number."""
    windows: ClassVar[bool]
    """Whether it can measure the last records alone."""
    sizes: tuple[int, ...]
    """How many values each integer of a row has; the largest integers of its type are a null record."""
    t: int
    """How many records there are."""

    def __init__(self, schema: AnySchema, budget: Budget | float, noise: Noise, expect: int | None = None) -> None: ...

    def encode(self, points: Points) -> Rows:
        """What is kept of records, given as points of the schema's cube. Pure: reads nothing of the run."""

    def update(self, batch: Batch) -> Self:
        """The mechanism with these records; this one stays as it is.

        Rows without counts are in order of arrival, counted ones in the order of their buckets. Null records count in
        ``t`` and are otherwise ignored. Counted or not, what is ever measured is the same.
        """

    def spans(self, number: int) -> tuple[Span, ...]:
        """The buckets of record ``number`` (from 0), slowest first; none if only the order says all. Public."""

    def coarser(self, rows: Rows, number: int) -> Rows:
        """Rows of the bucket of record ``number`` without what no noisy count can ever distinguish. Public."""

    def measured(self, seed: int) -> Measured:
        """All that is published of the records so far. ``seed`` is public randomness."""

    def kept(self) -> Kept:
        """All that was measured until now, as it must be kept before it is shown. Public."""

    def knowing(self, kept: Kept) -> Self:
        """The mechanism for which this was measured already: it is never measured again."""

    def ledger(self, t: int | None = None) -> Ledger:
        """Every draw that record number ``t + 1``, the next one unless given, can move, then or later."""

    def plan(self, until: int) -> object:
        """The buckets and budgets of the first ``until`` records, to be printed. Public."""

    def state(self) -> State:
        """Everything that is needed to go on, but for the key of the noise: as secret as the data."""

    @classmethod
    def restore(
        cls, schema: AnySchema, budget: Budget | float, noise: Noise, state: State, expect: int | None = None
    ) -> Self:
        """Go on from a `state`."""


T = TypeVar("T")

PURE = "mechanism={!r} keeps pure ε only: leave out delta, or take cascade or marginals"

NULL = np.uint64(2**64 - 1)
"""The row of a null record. No cell has this number: there are at most 2^62."""


def twin(one: T) -> T:
    """The same with attributes of its own, several times as fast as `copy.copy`."""
    found: T = object.__new__(type(one))
    found.__dict__.update(one.__dict__)
    return found


def word(depth: int) -> np.dtype[Any]:
    return np.dtype(np.uint8 if depth <= 8 else np.uint32 if depth <= 32 else np.uint64)


class CellRows:
    """Rows of one integer: the cell of depth `finest`, or `NULL`. A base of mechanisms that cut the cube."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    windows: ClassVar[bool] = False
    saved: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that a state holds: arrays of the type and shape that they have before the first record."""

    def __init__(self, schema: AnySchema, budget: Budget | float, noise: Noise, expect: int | None = None) -> None:
        self.schema, self.partition, self.noise, self.t = schema, schema.partition, noise, 0
        self.budget = Budget.of(budget)
        self.epsilon = self.budget.epsilon
        self.finest = self.partition.deepest
        self.known: dict[Span, Any] = {}

    @property
    def sizes(self) -> tuple[int, ...]:
        return (1 << self.finest,)

    def encode(self, points: Points) -> Rows:
        return self.partition.cells(points, self.finest)[:, None]

    def spans(self, number: int) -> tuple[Span, ...]:
        return ()

    def coarser(self, rows: Rows, number: int) -> Rows:
        return rows

    def kept(self) -> Kept:
        return self.known

    def knowing(self, kept: Kept) -> Self:
        new = twin(self)
        new.known = self.known | dict(kept)
        return new

    def once(self, span: Span, measure: Callable[[], Any]) -> Any:  # noqa: ANN401 - of the mechanism's own type
        """What was measured of these records, now unless it was before."""
        if span not in self.known:
            self.known = self.known | {span: measure()}  # bound anew: a copy that is thrown away leaves nothing behind
        return self.known[span]

    def plan(self, until: int) -> object:
        raise ValueError(f"mechanism={self.name!r} has no plan to print; 'cascade' and 'marginals' have")

    def state(self) -> State:
        return {"t": self.t}, {name: getattr(self, name) for name in self.saved}

    @classmethod
    def restore(
        cls, schema: AnySchema, budget: Budget | float, noise: Noise, state: State, expect: int | None = None
    ) -> Self:
        found = cls(schema, budget, noise, expect)
        found._resume(*state)
        return found

    def _resume(self, header: Header, arrays: Arrays) -> None:
        self.t = whole_number(header["t"], "t")
        for name in self.saved:
            new: NDArray[Any] = getattr(self, name)
            need(arrays[name].dtype == new.dtype and arrays[name].shape == new.shape, name)
            setattr(self, name, arrays[name])
