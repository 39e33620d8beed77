"""How good releases can be, before there are any: from schema, ε and the number of records that are expected."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from headwater.mechanisms import registry
from headwater.mechanisms.accuracy import ExpectedError
from headwater.mechanisms.marginals.plan import Stage, stage_at
from headwater.mechanisms.protocol import AnySchema
from headwater.privacy import Budget, check_delta, check_epsilon
from headwater.table.categorical import Boolean, Category
from headwater.table.unit_cube import UnitCube

W1, ONE_WAY = "W1", "one-way total variation"
POOR = {W1: 0.1, ONE_WAY: 0.2}
"""Errors from which on a release says little: a tenth of the width of the columns; a fifth of the records misplaced."""

_CELLS = {1: (2.3, 0.72), 2: (4.5, 0.64), 3: (4.6, 0.56), 4: (4.0, 0.49), 5: (3.5, 0.43)}
"""Cascade: W1 = a·(εt)^−b by number of columns, the medians of docs/benchmarks/accuracy.json for εt in 10³…10⁶."""
BLIND = 0.25  # W1 of points drawn evenly from data that are clustered
_BINS = 16  # of a column of many ordered values
_MOST = 1 << 50  # records


@dataclass(frozen=True)
class Outlook:
    """What to expect of releases of so many records. An estimate, good to a factor of about two.

    Parameters
    ----------
    mechanism
        The mechanism that measures.
    columns
        How many there are.
    epsilon
        The privacy budget, as it was given.
    records
        How many records are expected.
    measure
        Which error this is: ``"W1"``, or ``"one-way total variation"``, the mean over all columns.
    typical
        The error to expect; NaN for a mechanism of which nothing is known.
    needed
        From about how many records on it is no longer poor; None if that is not known.
    delta
        The probability with which ε may be exceeded.
    records_per_person
        How many records of a person ε is for.
    """

    mechanism: str
    columns: int
    epsilon: float
    records: int
    measure: str
    typical: float
    needed: int | None
    delta: float = 0.0
    records_per_person: int = 1

    @property
    def poor(self) -> bool:
        """Whether releases will say little."""
        return self.typical >= POOR[self.measure]

    def __str__(self) -> str:
        each = self.records_per_person
        loss = Budget(self.epsilon, self.delta).guarantee.loss + (
            f" for {each:,} records of a person" if each > 1 else ""
        )
        what = f"{self.records:,} records of {self.columns} column(s) at {loss} ({self.mechanism})"
        if math.isnan(self.typical):
            return f"{what}: nothing is known of the error"
        text = f"{what}: {self.measure} about {self.typical:.2g}"
        if not self.poor:
            return text
        enough = f" Below {POOR[self.measure]:g} it comes from about {self.needed:,} records on;" if self.needed else ""
        return (
            f"{text}, where 0 is perfect and 1 is nothing in common, so such a release says little of the data."
            f"{enough} fewer columns, fewer listed values and a larger ε help too"
        )


def outlook(
    schema: AnySchema,
    *,
    epsilon: float,
    records: int,
    mechanism: str = registry.AUTO,
    delta: float = 0.0,
    records_per_person: int = 1,
    records_per_bucket: int | None = None,
) -> Outlook:
    """What to expect of releases of so many records, from public facts alone.

    Parameters
    ----------
    schema
        What a record is.
    epsilon
        The privacy budget.
    records
        How many records are expected.
    mechanism
        As for `headwater.Synthesizer`.
    delta
        As for `headwater.Synthesizer`: with a δ noise may be Gaussian, and less.
    records_per_person
        How many records of a person count, if ε is for a person: each of them gets its part of ε.
    records_per_bucket
        How many of them count in one bucket, if there is such a cap (``per_bucket`` of `headwater.Person`).

    Examples
    --------
    >>> from headwater import Category, Number, Schema
    >>> wide = Schema({f"item {i}": Category(list("abcdefgh")) for i in range(20)})
    >>> outlook(wide, epsilon=0.1, records=1000).poor, outlook(wide, epsilon=1.0, records=100_000).poor
    (True, False)
    """
    whole = Budget(check_epsilon(epsilon), check_delta(delta), records_per_person, records_per_bucket)
    budget = whole.of_record
    given: object = records
    if isinstance(given, bool) or not isinstance(given, int) or records < 1:
        raise ValueError(f"records must be a whole number from 1 on, not {records!r}")
    name = registry.choose(schema) if mechanism == registry.AUTO else mechanism
    registry.folder_of(name)  # or refused
    measure = ONE_WAY if name == "marginals" else W1
    typical, needed = _typical(name, schema, budget, records), None
    if typical >= POOR[measure]:
        enough = records
        while enough < _MOST and _typical(name, schema, budget, enough) >= POOR[measure]:
            enough *= 2
        digit = 10 ** int(math.log10(enough))
        needed = -(-enough // digit) * digit if enough < _MOST else None
    return Outlook(name, schema.dimension, whole.epsilon, records, measure, typical, needed, whole.delta, whole.records)


def is_poor(expected: ExpectedError) -> bool:
    """Whether a release says little, by its own estimate.

    Parameters
    ----------
    expected
        What a release says of its error.
    """
    if expected.measure == W1:
        return expected.typical >= POOR[W1]
    return "one-way" in expected.parts and expected.parts["one-way"][0] >= POOR[ONE_WAY]


def _typical(name: str, schema: AnySchema, budget: Budget, records: int) -> float:
    if name == "cascade":
        # A count has variance 8/ε² of Laplace noise or 1/ρ of Gaussian, whichever is less.
        epsilon = max(budget.epsilon, math.sqrt(8 * (budget.rho or 0)))
        return of_cells(schema.dimension, epsilon * records)
    return _of_marginals(schema, budget, records) if name == "marginals" else math.nan


def of_cells(columns: int, product: float) -> float:
    """The W1 of cascade by ε times the number of records."""
    constant, power = _CELLS.get(columns, (3.5, 0.43 * 5 / columns))
    return min(constant * math.pow(product, -power), BLIND)


def _of_marginals(schema: AnySchema, budget: Budget, records: int) -> float:
    """The noise of the closed slow buckets in a column's counts, as a part of their records; at most 1.

    A one-way table of one of ``D`` columns has Laplace noise of scale ``2 D / one-way budget`` (less, if small tables
    share theirs), or Gaussian noise of the variance that its ρ gives, and ``k`` counts are off by half of ``k`` times
    the deviation of their sum. Counts that are below the noise are shrunk: ``x / (1 + x)``.
    """
    closed = [stage for stage in stages(budget, schema.dimension, records) if stage.end <= records]
    if not closed:
        return 1.0
    scale = math.hypot(*(stage.accounting.width(float(stage.one_way), schema.dimension) for stage in closed))
    found = [count * scale / closed[-1].end / 2 for count in counts_of(schema)]
    return sum(x / (1 + x) for x in found) / len(found)


def stages(budget: Budget | float, columns: int, until: int) -> Iterator[Stage]:
    """The stages of marginals up to some time."""
    t = 0
    while t < until:
        yield (stage := stage_at(t, budget, columns))
        t = stage.end


def counts_of(schema: AnySchema) -> list[int]:
    """How many counts a one-way table of each column has."""
    if isinstance(schema, UnitCube):
        return [_BINS] * schema.dimension
    found = []
    for column in schema.columns.values():
        listed = isinstance(column, Category | Boolean) and column.size
        found.append((listed or min(column.size or _BINS, _BINS)) + column.missing)
    return found
