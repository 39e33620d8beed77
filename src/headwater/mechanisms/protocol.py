"""What a mechanism is: the part that measures, what it hands over, and the model that a release holds.

`Mechanism` has seen records. What it hands over, `Measured`, is frozen and holds noisy counts and public facts only;
it crosses the trust boundary once. A `Model` is fitted to it and never sees anything else. `headwater.audit` has the
tests that every mechanism passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.accuracy import ErrorBound, ExpectedError
from headwater.partition import Flags, Points
from headwater.privacy import Budget, Guarantee, Ledger
from headwater.table.schema import Schema
from headwater.table.unit_cube import UnitCube

if TYPE_CHECKING:
    from headwater.noise import Noise

AnySchema = Schema | UnitCube
Rows = NDArray[np.unsignedinteger[Any]]
"""What is kept of records: an array of shape ``(records, width)``.

A row whose integers are all the largest of the type that `Mechanism.encode` gives is a *null record*: one that has
arrived and is nowhere. `Mechanism.t` counts it, and it takes its place in its bucket; no other count moves.
"""
Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
Conditions = Mapping[int, tuple[float, float]]
"""For some columns, the lowest and the highest coordinate that a record may have, both included."""
State = tuple[Header, Arrays]
"""Plain JSON values, and arrays: what files hold."""
Options = dict[str, tuple[str, ...] | type[int]]
"""What a mechanism's constructor takes by name: a choice of some values, the first being the default, or a number."""


def null_records(rows: Rows) -> Flags:
    """Which rows are null records."""
    largest = np.iinfo(rows.dtype).max
    null: Flags = rows[:, 0] == largest
    if rows.shape[1] > 1 and null.any():
        null = (rows == largest).all(axis=1)
    return null


def with_null_records(rows: Rows, bad: Flags | None) -> Rows:
    """Rows in which the ``bad`` ones are null records."""
    if bad is not None:
        rows[bad] = np.iinfo(rows.dtype).max
    return rows


@dataclass(frozen=True)
class Facts:
    """What everybody may know of a run: neither the noise nor the data is in it.

    ``noise`` names the laws of its noise.
    """

    t: int
    guarantee: Guarantee
    schema: AnySchema
    mechanism: str
    noise: str = "integer Laplace"

    @property
    def epsilon(self) -> float:
        """The privacy budget of the whole run."""
        return self.guarantee.epsilon

    @property
    def dimension(self) -> int:
        """How many columns a record has."""
        return self.schema.dimension


class Measured(Protocol):
    """What crosses the trust boundary: frozen; every field may be published as it stands."""

    def near(self, points: Points) -> dict[str, float]:
        """The noisy numbers that records at these points count in, by name: what an attacker would look at first."""


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
    (`headwater.noise`), so asking twice, asking never, a batch or its records one by one, and going on from a saved
    state all give the same numbers.
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
        """A copy that can be updated while this one stays as it is. What neither ever changes may be shared."""

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
        """Go on from a `state`, or refuse it (`headwater.files.FileRefusedError`) if no run can have left it."""


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


CapErrors = Mapping[str, tuple[float, float]]
"""By measure: the error of noise, and that of measuring people who have nothing in common with the others."""


class ErrorModel(Protocol):
    """What is known of a mechanism's errors before there are records: public, and good to a factor of about two.

    Optional: `ERROR_MODEL` of the mechanism's module ``error_model``.
    """

    measure: str
    """Which error `typical` is: a key of `headwater.mechanisms.accuracy.POOR`."""

    def typical(self, schema: AnySchema, budget: Budget, records: int, expect: int | None = None) -> float:
        """The error to expect of a release of so many records, in a run that expects ``expect`` of them."""

    def capped(
        self, schema: AnySchema, epsilon: float, records: int, counted: float, expect: int | None = None
    ) -> CapErrors:
        """The errors of noise of the ε of one record, if only a part of the records count: for a choice of caps."""


class Model(Protocol):
    """What a release holds: a distribution of records, fitted to noisy counts. Immutable, and may be published."""

    @classmethod
    def fit(cls, measured: Any, schema: AnySchema, seed: int) -> Self:  # noqa: ANN401 - of the mechanism's own type
        """The model of what was measured. ``seed`` is public randomness."""

    @property
    def records(self) -> int:
        """How many records it is about."""

    def points(self, seed: int) -> Points:
        """As many synthetic records as it is about, as points of the schema's cube; the same for the same seed."""

    def sample(self, n: int, seed: int, where: Conditions | None = None) -> Points:
        """Any number of synthetic records, perhaps of those only that fulfil conditions; a `ValueError` if none can."""

    def expected_error(self) -> ExpectedError:
        """How far the release is likely to be from the data, from public numbers only."""

    @staticmethod
    def error_bound(facts: Facts, start: int) -> ErrorBound:
        """What is proved of the error of a release of these facts."""

    def near(self, points: Points) -> dict[str, float]:
        """Numbers of the model that records at these points count in, by name: for auditors."""

    def state(self) -> State:
        """The model as plain values and arrays."""

    @classmethod
    def restore(cls, header: Header, arrays: Arrays, schema: AnySchema, records: int) -> Self:
        """The model that a `state` describes, or `headwater.files.FileRefusedError`."""
