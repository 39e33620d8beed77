"""How many records of a person should count: noise grows with the cap, and what a smaller one leaves out is missed.

With a cap of ``k`` and people of whom a share ``p_n`` have ``n`` records, a part ``c = Σ p_n min(n, k) / Σ p_n n`` of
the records counts, each of them with ``ε/k``. Those of people with many records are too few among them: by the number
of records of their person, all records and those that count are ``d`` apart in total variation. The error is that of
noise for ``ε/k`` on the records that count, and ``d`` times how different people with many records are; the two are
independent of each other, so their squares add up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from headwater.public import protocol as registry
from headwater.public.budget import Budget, check_delta, check_epsilon, record_epsilon
from headwater.public.protocol import IN_WORDS, POOR, W1, AnySchema

_MOST = 1 << 50  # records


@dataclass(frozen=True)
class Outlook:
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
        return self.typical >= POOR[self.measure]

    def __str__(self) -> str:
        loss = Budget(self.epsilon, self.delta).guarantee.loss
        if self.records_per_person > 1:
            loss += f" for {self.records_per_person:,} records of a person"
        columns = f"{self.columns} column{'s' * (self.columns > 1)}"
        what = f"{self.records:,} records of {columns} at {loss} ({self.mechanism})"
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
    _check_records(records)
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


def _check_records(records: object) -> None:
    if isinstance(records, bool) or not isinstance(records, int) or records < 1:
        raise ValueError(f"records must be a whole number from 1 on, not {records!r}")


_STEPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)


@dataclass(frozen=True)
class Cap:
    """What to expect of one number of records: by measure, the error of noise and of what is left out."""

    records: int
    counted: float
    errors: Mapping[str, tuple[float, float]]

    def error(self, measure: str | None = None) -> float:
        return math.hypot(*self.errors[measure]) if measure else fmean(math.hypot(*two) for two in self.errors.values())


@dataclass(frozen=True)
class RecordsPerPerson:
    """How many records of a person should count, and what other numbers would cost: print it."""

    records: int
    caps: tuple[Cap, ...]

    def __str__(self) -> str:
        measures = [f"{name.removesuffix(' total variation')} (noise, left out)" for name in self.caps[0].errors]
        lines = [f"{'records that count':>19} {'noise':>7} {'counted':>8}   {'   '.join(measures)}"]
        last = self.caps[-1].records
        for cap in self.caps:
            if str(cap.records).rstrip("0") not in ("1", "2", "5") and cap.records not in (self.records, last):
                continue
            mark = "  suggested" if cap.records == self.records else ""
            sums = [f"{math.hypot(*two):.3f} ({two[0]:.3f}, {two[1]:.3f})" for two in cap.errors.values()]
            wide = "   ".join(f"{text:<{len(name)}}" for text, name in zip(sums, measures, strict=True))
            lines.append(f"{cap.records:>19,} {f'× {cap.records:,}':>7} {cap.counted:>8.0%}   {wide}{mark}".rstrip())
        return "\n".join(lines)


def suggest_records_per_person(
    people: Mapping[int, float],
    schema: AnySchema,
    *,
    epsilon: float,
    records: int,
    mechanism: str = registry.AUTO,
    differ: float = 0.3,
    measure: str | None = None,
    expect: int | None = None,
) -> RecordsPerPerson:
    """How many records of a person should count, from what is **publicly** known about how many records people have.

    Take the numbers from elsewhere: another year, a published statistic, a guess. Taken from the records of the run,
    the choice would say something about people that no noise hides.

    Parameters
    ----------
    people
        For each number of records, which share of people have so many: for the whole run, or in a period.
    schema
        What a record is.
    epsilon
        The privacy budget of a person.
    records
        How many records are expected.
    mechanism
        As for `headwater.Synthesizer`; of the paper's mechanism nothing is known.
    differ
        How different the records of people with many are from those of others: 0 if they are alike, 1 if they have
        nothing in common. The choice hangs on it most where there are few records.
    measure
        Which error should be smallest: ``"W1"`` of cascade, ``"one-way total variation"`` or ``"two-way total
        variation"`` of marginals. The mean of all that there are unless given. Single columns are best with larger caps
        than pairs of columns.
    expect
        As for `headwater.Synthesizer`: how many records the run expects.

    Examples
    --------
    >>> from headwater import Number, Schema
    >>> table = Schema(x=Number(0, 1), y=Number(0, 1))
    >>> print(suggest_records_per_person({1: 0.7, 5: 0.25, 100: 0.05}, table, epsilon=1.0, records=100_000))
     records that count   noise  counted   W1 (noise, left out)
                      1     × 1      14%   0.051 (0.010, 0.050)
                      2     × 2      19%   0.050 (0.013, 0.048)
                      5     × 5      32%   0.048 (0.017, 0.045)
                     10    × 10      35%   0.046 (0.024, 0.039)
                     20    × 20      42%   0.044 (0.033, 0.029)  suggested
                     50    × 50      64%   0.048 (0.046, 0.012)
                    100   × 100     100%   0.054 (0.054, 0.000)
    """
    known = _checked(people)
    name = registry.resolved(mechanism, schema)
    errors = registry.error_model(name)
    if errors is None:
        raise ValueError(f"nothing is known of the error of {name}: take cascade or marginals")
    _check_records(records)
    if not 0 <= differ <= 1:
        raise ValueError(f"differ must lie between 0 and 1, not {differ!r}")
    numbers, shares = (np.array(list(part), dtype=float) for part in (known.keys(), known.values()))
    found = []
    for cap in _candidates(max(known)):
        counted, apart = left_out(numbers, shares, cap)
        expected = errors.capped(schema, record_epsilon(check_epsilon(epsilon), cap), records, counted, expect)
        each = {name: (noise, differ * other * apart) for name, (noise, other) in expected.items()}
        found.append(Cap(cap, counted, each))
    if measure is not None and measure not in found[0].errors:
        raise ValueError(f"measure must be one of {', '.join(found[0].errors)}, not {measure!r}")
    return RecordsPerPerson(min(found, key=lambda cap: cap.error(measure)).records, tuple(found))


def left_out(numbers: NDArray[np.float64], shares: NDArray[np.float64], cap: int) -> tuple[float, float]:
    every, counting = shares * numbers, shares * np.minimum(numbers, cap)
    part = counting.sum() / every.sum()
    return float(part), float(np.abs(counting / counting.sum() - every / every.sum()).sum() / 2)


def _checked(people: object) -> dict[int, float]:
    if not isinstance(people, Mapping) or not people:
        raise TypeError("people must be shares of people by number of records, such as {1: 0.7, 10: 0.25, 200: 0.05}")
    for number, share in people.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"people have a whole number of records from 1 on, not {number!r}")
        if not isinstance(share, Real) or not 0 <= float(share) < math.inf:
            raise ValueError(f"a share of people must be 0 or more, not {share!r}")
    if not sum(people.values()):
        raise ValueError("some share of people must be above 0")
    return {number: float(share) for number, share in people.items() if share}


def _candidates(most: int) -> list[int]:
    rounded = {round(step * 10**power) for power in range(len(str(most))) for step in _STEPS}
    return sorted({most, *(number for number in rounded if number <= most)})
