"""What `headwater.evaluate.measures.evaluate` found: as text, as a table in a terminal, and for JSON. NOT PRIVATE."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.evaluate.axes import Floats
from headwater.evaluate.distances import SUBSAMPLE, ColumnDistance
from headwater.evaluate.queries import QueryErrors
from headwater.evaluate.w1 import W1

if TYPE_CHECKING:
    from rich.console import Group

NOT_PRIVATE = "NOT PRIVATE: computed from the real data without noise. Do not publish."


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What `evaluate` found. NOT PRIVATE: print it, but do not publish it.

    Attributes
    ----------
    rows
        Of the real and of the synthetic table.
    w1
        The distance of the tables, with its error and method.
    floor
        If the method is ``"subsample"``: what the same method says of two halves of the real data. Else ``None``.
    columns
        The distance of each column.
    dependence
        Matrices of the real and of the synthetic table, of shape ``(d, d)``.
    queries
        Errors of answers.
    """

    rows: tuple[int, int]
    w1: W1
    floor: float | None
    columns: tuple[ColumnDistance, ...]
    dependence: tuple[Floats, Floats]
    queries: QueryErrors

    @property
    def difference(self) -> Floats:
        """Synthetic dependence minus real dependence."""
        return self.dependence[1] - self.dependence[0]

    def to_dict(self) -> dict[str, Any]:
        """For JSON: what is unknown is ``None``."""
        real, synthetic = self.dependence
        return {
            "warning": NOT_PRIVATE,
            "rows": {"real": self.rows[0], "synthetic": self.rows[1]},
            "w1": {
                "value": self.w1.value,
                "error": _known(self.w1.error),
                "method": self.w1.method,
                "floor": self.floor,
            },
            "columns": [{**vars(column), "distance": _known(column.distance)} for column in self.columns],
            "dependence": {
                "columns": [column.name for column in self.columns],
                "real": real.tolist(),
                "synthetic": synthetic.tolist(),
                "difference": self.difference.tolist(),
            },
            "queries": vars(self.queries).copy(),
        }

    def _summary(self) -> list[tuple[str, str]]:
        """Lines of a label and a finding."""
        if self.w1.method == "subsample":
            beside = f"estimate from {SUBSAMPLE:,} rows of each" + (
                f"; the real data against themselves: {self.floor:.4f}" if self.floor is not None else ""
            )
        else:
            beside = "exact" if self.w1.error == 0 else f"± {self.w1.error:.4f}, {self.w1.method}"
        lines = [
            ("rows", f"{self.rows[0]:,} real, {self.rows[1]:,} synthetic"),
            ("W1 in the unit cube", f"{self.w1.value:.4f} ({beside})"),
            (
                f"error of {self.queries.count} range queries",
                f"{self.queries.mean:.4f} mean, {self.queries.percentile_95:.4f} at the 95th percentile",
            ),
        ]
        if len(self.columns) > 1:
            worst = np.abs(self.difference)
            i, j = np.unravel_index(int(worst.argmax()), worst.shape)
            pair = f" ({self.columns[i].name} and {self.columns[j].name})" if worst[i, j] > 0 else ""
            lines.append(("largest change of dependence", f"{self.difference[i, j]:+.4f}{pair}"))
        return lines

    def _cells(self) -> list[tuple[str, str, str, str, str]]:
        header = ("column", "distance", "measure", "missing, real", "missing, synthetic")
        rows = [
            (c.name, f"{c.distance:.4f}", c.measure, f"{c.missing_real:.2%}", f"{c.missing_synthetic:.2%}")
            for c in self.columns
        ]
        return [header, *rows]

    def __str__(self) -> str:
        summary = self._summary()
        width = max(len(label) for label, _ in summary)
        lines = [NOT_PRIVATE, "", *(f"{label:<{width}}  {finding}" for label, finding in summary), ""]
        cells = self._cells()
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines += ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        return "\n".join(lines)

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        summary = Table.grid(padding=(0, 2))
        for line in self._summary():
            summary.add_row(*(Text(part) for part in line))
        header, *rows = self._cells()
        columns = Table(*header, title_justify="left")
        for row in rows:
            columns.add_row(*(Text(cell) for cell in row))  # Text: a name in brackets is a name, not markup
        return Group(Text(NOT_PRIVATE, style="bold white on red"), "", summary, "", columns)


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number
