"""A published table as the model of a release: its rows are all that is known of the distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from headwater.mechanisms import registry
from headwater.mechanisms.accuracy import ErrorBound, ExpectedError
from headwater.mechanisms.protocol import AnySchema, Arrays, Conditions, Facts, Header, State
from headwater.partition import Points

_NO_MODEL = "a release that was read from its folder has rows and no model; copy the folder instead"


@dataclass(frozen=True, eq=False)
class TableModel:
    """The rows of a table that was published."""

    rows: Points
    expected: ExpectedError

    @classmethod
    def fit(cls, measured: object, schema: AnySchema, seed: int) -> Self:
        """Refused: nothing was measured here."""
        raise NotImplementedError(_NO_MODEL)

    @property
    def records(self) -> int:
        """How many rows the table has."""
        return len(self.rows)

    def points(self, seed: int) -> Points:
        """The rows as they are."""
        return self.rows.copy()

    def sample(self, n: int, seed: int, where: Conditions | None = None) -> Points:
        """Rows of the table, perhaps of those only that fulfil conditions: none twice unless there are too few."""
        fits = np.ones(len(self.rows), dtype=bool)
        for axis, (low, high) in (where or {}).items():
            fits &= (self.rows[:, axis] >= low) & (self.rows[:, axis] <= high)
        found = np.flatnonzero(fits)
        if n and not len(self.rows):
            raise ValueError("this release is about no records: its table has no rows to draw from")
        if n and not len(found):
            raise ValueError("the release holds no record that fulfils these conditions; ask for less")
        chosen = np.random.default_rng([seed, n]).choice(found, n, replace=n > len(found)) if n else found[:0]
        return self.rows.take(chosen, axis=0)

    def expected_error(self) -> ExpectedError:
        """What the card says."""
        return self.expected

    @staticmethod
    def error_bound(facts: Facts, start: int) -> ErrorBound:
        """That of the mechanism which measured."""
        return registry.model(facts.mechanism).error_bound(facts, start)

    def near(self, points: Points) -> dict[str, float]:
        """Refused: auditors look at models."""
        raise NotImplementedError(_NO_MODEL)

    def state(self) -> State:
        """Refused."""
        raise ValueError(_NO_MODEL)

    @classmethod
    def restore(cls, header: Header, arrays: Arrays, schema: AnySchema, records: int) -> Self:
        """Refused."""
        raise NotImplementedError(_NO_MODEL)


def expected_of(card: dict[str, Any]) -> ExpectedError:
    """The expected error as a card has it."""
    known = card["expected_error"]
    if known is None:
        return ExpectedError(float("nan"), float("nan"))
    parts = {name: (part["typical"], part["upper"]) for name, part in (known.get("parts") or {}).items()}
    return ExpectedError(known["typical"], known["upper"], known.get("measure", "W1"), parts)
