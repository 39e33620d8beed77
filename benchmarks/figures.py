"""Measured figures beside what is required of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.markdown import table


@dataclass(frozen=True)
class Row:
    """One measured figure, and what it must be if anything is asked of it."""

    what: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def bound(self) -> str:
        """In words."""
        if self.at_least is not None:
            return f"at least {self.at_least:,g}"
        return "" if self.at_most is None else f"at most {self.at_most:,g}"

    @property
    def verdict(self) -> str:
        """Pass, miss, or nothing where nothing is asked."""
        if not self.bound:
            return ""
        low = self.at_least is not None and self.value < self.at_least
        high = self.at_most is not None and self.value > self.at_most
        return "**miss**" if low or high else "pass"

    @property
    def figure(self) -> str:
        """The value as printed."""
        digits = 0 if self.value >= 100 else 1 if self.value >= 10 else 2
        return f"{self.value:,.{digits}f} {self.unit}".strip()


def figures(rows: Iterable[Row]) -> str:
    """A table in Markdown."""
    cells = [[row.what, row.figure, row.bound, row.verdict] for row in rows]
    return table(["what", "measured", "required", ""], cells, "lrl")
