"""Measured releases: of Headwater while its records arrive, of independent marginals, of MST and AIM."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any

import numpy as np
import pandas as pd

import headwater as hw
from benchmarks.tables import offline
from benchmarks.tables.cases import INDEPENDENT, NOTHING, REQUIRED_TIMES, Case
from benchmarks.tables.data import Table, table
from benchmarks.tables.measures import Errors, accuracy, correlation_error, marginal_errors


@dataclass(frozen=True)
class Row:
    """The errors of one release, what it cost, and what it was expected to be wrong by.

    Seconds are of the processor, of one thread. ``update`` is of all updates since the release before.
    """

    case: Case
    errors: Errors
    correlation: float
    accuracy: float | None = None
    update: float = 0.0
    release: float = 0.0
    draw: float = 0.0
    expected: tuple[float, float] | None = None  # typical and upper two-way total variation
    mechanism: str = ""  # which one was chosen, if the method is auto

    def to_dict(self) -> dict[str, Any]:
        """Flat, for JSON."""
        row = asdict(self)
        return {**row.pop("case"), **row.pop("errors"), **row}

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Row:
        """As `to_dict` wrote it."""
        parts = {kind: {name: row[name] for name in kind.__dataclass_fields__} for kind in (Case, Errors)}
        rest = {name: row[name] for name in cls.__dataclass_fields__ if name not in ("case", "errors")}
        rest["expected"] = rest["expected"] and tuple(rest["expected"])
        return cls(Case(**parts[Case]), Errors(**parts[Errors]), **rest)


class UnknownMechanismError(Exception):
    """The package has no mechanism of that name."""


def online(cases: list[Case]) -> Iterator[Row]:
    """One run of Headwater over a table, with a release at each time of the cases, which differ in nothing else."""
    first, done = cases[0], 0
    whole, synthesizer = table(first.table), synthesizer_of(first)
    for case in sorted(cases):
        if case.expect is not None:  # a run of its own
            synthesizer, done = synthesizer_of(case), 0
        start = process_time()
        synthesizer.update(whole.frame.iloc[done : case.t])
        updated = process_time()
        release = synthesizer.release()
        released = process_time()
        points = release.points()
        drawn = process_time()
        expected = release.expected_error()
        yield _row(
            case,
            whole.first(case.t),
            whole.schema.decode(points, "pandas"),
            update=round(updated - start, 4),
            release=round(released - updated, 4),
            draw=round(drawn - released, 4),
            expected=(float(expected.typical), float(expected.upper)) if "two-way" in str(expected) else None,
            mechanism=release.mechanism,
        )
        done = case.t


def synthesizer_of(case: Case) -> hw.Synthesizer:
    """The synthesizer of a case, before its first record."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seeded, and perhaps too wide for its mechanism: both are meant here
        try:
            schema = table(case.table).schema
            how: dict[str, Any] = {"mechanism": case.mechanism, "seed": case.seed + 1, "expect": case.expect}
            return hw.Synthesizer(schema, epsilon=case.epsilon, delta=case.delta, **how)
        except ValueError as error:
            if "mechanism" in str(error):
                raise UnknownMechanismError(case.mechanism) from error
            raise


def beside(case: Case) -> Row | None:
    """The release of an offline method; None if it takes too long."""
    here = table(case.table).first(case.t)
    start = process_time()
    if case.method == INDEPENDENT:
        codes = offline.independent(here, case.epsilon, case.seed)
        seconds = process_time() - start
    elif case.method == NOTHING:
        codes, seconds = offline.nothing(here, case.seed), 0.0
    else:
        found = offline.dpmm(here, case.epsilon, case.method, case.seed)
        if found is None:
            return None
        codes, seconds = found
    made = here.decode(codes, np.random.default_rng(case.seed))
    return _row(case, here, made, release=round(seconds, 4), mechanism=case.method)


def _row(case: Case, real: Table, made: pd.DataFrame, **cost: Any) -> Row:  # noqa: ANN401 - fields of Row
    found = marginal_errors(real.codes(), real.codes(made), real.sizes)
    errors = Errors(**{name: round(value, 6) for name, value in asdict(found).items()})
    classified = real.target is not None and case.epsilon == 1 and case.t in REQUIRED_TIMES.get(case.table, ())
    correct = round(accuracy(real, made, case.seed), 5) if classified else None
    return Row(case, errors, round(correlation_error(real, made), 6), correct, **cost)
