"""What mechanisms and their models agree on, and which there are; their modules are imported when asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from headwater.public.budget import Budget, Guarantee
from headwater.public.cube import UnitCube
from headwater.public.partition import Flags, Points
from headwater.public.schema import Schema

W1, ONE_WAY, TWO_WAY = "W1", "one-way total variation", "two-way total variation"
SHARES = "largest error of a share in a column"
"""Of a value, or of any range; the mean over all columns."""
IN_WORDS = {ONE_WAY: f"error of one column ({ONE_WAY})", TWO_WAY: f"error of two columns ({TWO_WAY})"}
"""Measures as `headwater.evaluate` calls them, and as statisticians do."""
POOR = {W1: 0.1, ONE_WAY: 0.2, SHARES: 0.1}
"""Errors from which on a release says little: a tenth of the width of the columns; a fifth of the records misplaced."""


@dataclass(frozen=True)
class ErrorBound:
    """``E W1 ≤ constant · rate`` for every stream, once ``t ≥ valid_from``.

    ``constant`` is ``None`` where the theorem proves that one exists and does not say how large it is. Whatever the
    stream, W1 in the unit cube is at most 1.

    Parameters
    ----------
    rate
        How the error falls with time, as a number at this time.
    formula
        The same as a formula.
    constant
        What the rate is multiplied by, or ``None``.
    valid_from
        The time from which on the theorem holds.
    source
        Where it is proved.
    """

    rate: float
    formula: str
    constant: float | None
    valid_from: float
    source: str

    def __str__(self) -> str:
        if self.constant is None:
            return f"E W1 ≤ C·{self.rate:.3g} with a constant C that is unknown [{self.formula}; {self.source}]"
        return f"E W1 ≤ {self.constant * self.rate:.3g} [{self.formula}; {self.source}]"


def nothing_proved(why: str) -> ErrorBound:
    return ErrorBound(1.0, "W1 in the unit cube", 1.0, 0, why)


@dataclass(frozen=True)
class ExpectedError:
    """An estimate of the distance between a release and the data, made without the data.

    ``typical`` is what to expect; ``upper`` was exceeded in fewer than one of ten cases when it was calibrated
    (docs/benchmarks). Neither is a theorem. Both are NaN for a mechanism that knows nothing of its error. For streams
    that move they are too small, above all in windows: no number shows yet that new records are unlike the last ones.

    Parameters
    ----------
    typical
        The median of what was found in calibration.
    upper
        What nine of ten cases stayed below.
    measure
        Which distance this is: ``"W1"``, or ``"largest error of a share in a column"``, the mean over all columns.
    parts
        The same two numbers for parts of the release, by name: ``"column NAME"`` is the largest error of the share of
        a value or of any range of a column, ``"W1 NAME"`` its W1 in standard deviations of the column.
    """

    typical: float
    upper: float
    measure: str = "W1"
    parts: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    def to_dict(self) -> dict[str, object] | None:
        """The same as plain values, as cards have it; None if nothing is known."""
        if math.isnan(self.typical):
            return None
        plain: dict[str, object] = {"measure": self.measure, "typical": self.typical, "upper": self.upper}
        if self.parts:
            plain["parts"] = {name: {"typical": low, "upper": high} for name, (low, high) in self.parts.items()}
        return plain

    def __str__(self) -> str:
        if math.isnan(self.typical):
            return f"{self.measure} unknown: this mechanism has no estimate"
        what = IN_WORDS.get(self.measure, self.measure)
        return f"{what} about {self.typical:.2g}, below {self.upper:.2g} in nine cases of ten"


AnySchema = Schema | UnitCube
Rows = NDArray[np.unsignedinteger[Any]]
"""What is kept of records: an array of shape ``(records, width)``."""
Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
Conditions = Mapping[int, tuple[float, float]]
"""For some columns, the lowest and the highest coordinate that a record may have, both included."""
State = tuple[Header, Arrays]
"""Plain JSON values, and arrays: what files hold."""
Options = dict[str, tuple[str, ...] | type[int]]
"""What a mechanism's constructor takes by name: a choice of some values, the first being the default, or a number."""


def null_records(rows: Rows) -> Flags:
    largest = np.iinfo(rows.dtype).max
    null: Flags = rows[:, 0] == largest
    if rows.shape[1] > 1 and null.any():
        null = (rows == largest).all(axis=1)
    return null


def with_null_records(rows: Rows, bad: Flags | None) -> Rows:
    if bad is not None:
        rows[bad] = np.iinfo(rows.dtype).max
    return rows


@dataclass(frozen=True)
class Facts:
    """What everybody may know of a run: neither the noise nor the data is in it."""

    t: int
    guarantee: Guarantee
    schema: AnySchema
    mechanism: str
    noise: str = "integer Laplace"

    @property
    def epsilon(self) -> float:
        return self.guarantee.epsilon

    @property
    def dimension(self) -> int:
        return self.schema.dimension


class Span(NamedTuple):
    """The records ``start … end − 1``, by their numbers."""

    start: int
    end: int


Kept = Mapping[Span, Any]
"""What was measured, by the records that it was measured of: public, and never measured again."""


class Measured(Protocol):
    """What crosses the trust boundary: frozen; every field may be published as it stands."""

    noise: ClassVar[str]
    """The laws of its noise, if there is no δ."""
    start: int
    """How many of the first records it is not about."""

    @classmethod
    def of(cls, kept: Kept, schema: AnySchema, budget: Budget, t: int) -> Self:
        """What was published of the first ``t`` records, out of what was kept until then."""

    @staticmethod
    def pack(kept: Kept) -> State:
        """What was kept, for a file."""

    @staticmethod
    def unpack(header: Header, arrays: Arrays, schema: AnySchema) -> Kept:
        """What `pack` packed."""

    def after(self, since: int) -> Self:
        """The shortest window that was measured and that holds all records after the first ``since``."""

    def near(self, points: Points) -> dict[str, float]:
        """The noisy numbers that records at these points count in, by name: what an attacker would look at first."""


CapErrors = Mapping[str, tuple[float, float]]
"""By measure: the error of noise, and that of measuring people who have nothing in common with the others."""


class ErrorModel(Protocol):
    """What is known of a mechanism's errors before there are records: public, and good to a factor of about two."""

    measure: str
    """Which error `typical` is: a key of `headwater.public.protocol.POOR`."""

    def typical(self, schema: AnySchema, budget: Budget, records: int, expect: int | None = None) -> float:
        """The error to expect of a release of so many records, in a run that expects ``expect`` of them."""

    def capped(
        self, schema: AnySchema, epsilon: float, records: int, counted: float, expect: int | None = None
    ) -> CapErrors:
        """The errors of noise of the ε of one record, if only a part of the records count: for a choice of caps."""


class Around(Protocol):
    """Draws truths near a release, which a model's ``around(measured, schema, rows)`` makes if it has that."""

    def truth(self, rng: np.random.Generator) -> Points:
        """Records of one truth, in the order in which they arrived."""

    def __call__(self, rng: np.random.Generator) -> tuple[Points, Points]:
        """Records of one truth, and as many of the model that was fitted to it when it was measured again."""


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
        """The model that a `state` describes, or `headwater.public.files.FileRefusedError`."""


MODULES = {
    "cascade": ("headwater.secret.cascade", "headwater.public.cascade.model"),
    "marginals": ("headwater.secret.marginals", "headwater.public.marginals.model"),
    "paper": ("headwater.secret.paper", "headwater.public.paper"),
    "pmm": ("", "headwater.public.paper"),
}
"""By mechanism: the module whose `MECHANISM` measures, and the one whose `MODEL` (and `ERROR_MODEL`) releases hold.

`pmm` measures once, by a function: it is no mechanism."""

AUTO = "auto"
"""Not a mechanism: stands for the one that `choose` names."""

WIDE = 4
"""From so many columns on, marginals are more accurate than cells (docs/benchmarks/tables.md)."""


def choose(schema: AnySchema) -> str:
    return "marginals" if _is_wide(schema) else "cascade"


def resolved(name: str, schema: AnySchema) -> str:
    if name != AUTO and name not in online():
        raise ValueError(f"mechanism must be one of {', '.join((AUTO, *online()))}, not {name!r}")
    return choose(schema) if name == AUTO else name


def reason(name: str, schema: AnySchema) -> str:
    """Why this mechanism, in words."""
    if name != choose(schema):
        return f"as asked; mechanism='auto' would have chosen {choose(schema)}"
    if _is_wide(schema):
        return f"{schema.dimension} columns: from {WIDE} on, marginals of columns and of pairs are the more accurate"
    what = (
        "points of a cube"
        if isinstance(schema, UnitCube)
        else f"{schema.dimension} column{'s' * (schema.dimension > 1)}"
    )
    return f"{what}: below {WIDE} columns, and in a cube, cells of all columns together are more accurate"


def _is_wide(schema: AnySchema) -> bool:
    return not isinstance(schema, UnitCube) and schema.dimension >= WIDE


def register(name: str, folder: str) -> None:
    modules = (f"{folder}.measure", f"{folder}.model")
    if MODULES.setdefault(name, modules) != modules:
        raise ValueError(f"there is a mechanism called {name!r} already")


def names() -> tuple[str, ...]:
    return tuple(MODULES)


def online() -> tuple[str, ...]:
    return tuple(name for name, (mechanism, _) in MODULES.items() if mechanism)


def model(name: str) -> type[Model]:
    found: type[Model] = import_module(modules_of(name)[1]).MODEL
    return found


def measured(name: str) -> type[Measured]:
    found: type[Measured] = import_module(modules_of(name)[1]).MEASURED
    return found


def error_model(name: str) -> ErrorModel | None:
    found: ErrorModel | None = getattr(import_module(modules_of(name)[1]), "ERROR_MODEL", None)
    return found


def modules_of(name: str) -> tuple[str, str]:
    if name not in names():
        raise ValueError(f"mechanism must be one of {', '.join(MODULES)}, not {name!r}")
    return MODULES[name]
