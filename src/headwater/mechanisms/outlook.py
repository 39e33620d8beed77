"""How good releases can be, before there are any: from schema, ε and the number of records that are expected."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headwater.mechanisms import registry
from headwater.mechanisms.accuracy import IN_WORDS, ONE_WAY, POOR, W1, ExpectedError
from headwater.mechanisms.protocol import AnySchema
from headwater.privacy import Budget, check_delta, check_epsilon

_MOST = 1 << 50  # records


@dataclass(frozen=True)
class Outlook:
    """What to expect of releases of so many records. An estimate, good to a factor of about two or three.

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
        By how much probabilities may differ beyond the factor of ε.
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
        what = (
            f"{self.records:,} records of {self.columns} column{'s' * (self.columns > 1)} at {loss} ({self.mechanism})"
        )
        if math.isnan(self.typical):
            return f"{what}: nothing is known of the error"
        text = f"{what}: {IN_WORDS.get(self.measure, self.measure)} about {self.typical:.2g}"
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
    expect: int | None = None,
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
    expect
        As for `headwater.Synthesizer`: how many records the run expects.

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
    name = registry.resolved(mechanism, schema)
    errors = registry.error_model(name)
    known = name, schema.dimension, whole.epsilon, records
    if errors is None:
        return Outlook(*known, W1, math.nan, None, whole.delta, whole.records)
    typical, needed = errors.typical(schema, budget, records, expect), None
    if typical >= POOR[errors.measure]:
        enough = records
        while enough < _MOST and errors.typical(schema, budget, enough, expect) >= POOR[errors.measure]:
            enough += -(-enough // 8)
        digit = 10 ** int(math.log10(enough))
        needed = -(-enough // digit) * digit if enough < _MOST else None
    return Outlook(*known, errors.measure, typical, needed, whole.delta, whole.records)


def is_poor(expected: ExpectedError) -> bool:
    """Whether a release says little, by its own estimate."""
    if expected.measure == W1:
        return expected.typical >= POOR[W1]
    return "one-way" in expected.parts and expected.parts["one-way"][0] >= POOR[ONE_WAY]
