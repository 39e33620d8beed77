"""The figures of the benchmark of wide tables: kept, found again, averaged over seeds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.tables.cases import Case
from benchmarks.tables.cost import Cost
from benchmarks.tables.online import Row

Place = tuple[str, int, float]
"""A table, a time, and ε."""


@dataclass(frozen=True)
class Numbers:
    """All measured releases and costs of one run, and the releases of offline methods that took too long."""

    size: str
    made: str
    rows: list[Row]
    costs: list[Cost]
    gave_up: list[Case] = field(default_factory=list)

    @cached_property
    def _by_place(self) -> dict[tuple[str, Place], list[Row]]:
        found: dict[tuple[str, Place], list[Row]] = {}
        for row in self.rows:
            case = row.case
            found.setdefault((case.method, (case.table, case.t, case.epsilon)), []).append(row)
        return found

    def places(self, method: str) -> list[Place]:
        """Where a method was measured, in order."""
        return sorted(place for name, place in self._by_place if name == method)

    def has(self, method: str) -> bool:
        """Whether a method was measured at all."""
        return any(name == method for name, _ in self._by_place)

    def seeds(self, method: str, place: Place) -> int:
        """How often a method was measured there."""
        return len(self._by_place.get((method, place), ()))

    def mean(self, method: str, place: Place, of: Callable[[Row], float | None]) -> float | None:
        """The mean over seeds of something measured; None where it was not."""
        values = [value for row in self._by_place.get((method, place), ()) if (value := of(row)) is not None]
        return float(np.mean(values)) if values else None

    def two_way(self, method: str, place: Place) -> float | None:
        """The mean two-way total variation."""
        return self.mean(method, place, lambda row: row.errors.two_way)

    def one_way(self, method: str, place: Place) -> float | None:
        """The mean one-way total variation."""
        return self.mean(method, place, lambda row: row.errors.one_way)

    def accuracy(self, method: str, place: Place) -> float | None:
        """The mean accuracy of the classifier that was trained on synthetic records."""
        return self.mean(method, place, lambda row: row.accuracy)

    def write(self, path: Path) -> None:
        """As JSON, one release a line."""
        head = {"size": self.size, "made": self.made, "costs": [asdict(cost) for cost in self.costs]}
        head["gave_up"] = [asdict(case) for case in self.gave_up]
        lines = ",\n".join(json.dumps(row.to_dict()) for row in self.rows)
        path.write_text(json.dumps(head)[:-1] + ', "rows": [\n' + lines + "\n]}\n")

    @classmethod
    def read(cls, path: Path) -> Numbers:
        """As `write` wrote them."""
        found = json.loads(path.read_text())
        rows = [Row.from_dict(row) for row in found["rows"]]
        gave_up = [Case(**case) for case in found["gave_up"]]
        return cls(found["size"], found["made"], rows, [Cost(**cost) for cost in found["costs"]], gave_up)
