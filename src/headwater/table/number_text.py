"""How numbers are written: the sign before decimals, and what stands between thousands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import InvalidOperation
from functools import cached_property
from typing import Any

from headwater.table.bounded import Bounded
from headwater.table.errors import SchemaError, TableError


@dataclass(frozen=True, repr=False)
class WrittenNumber(Bounded):
    """A column of numbers, and how text has them.

    Parameters
    ----------
    decimal
        What text has before decimals: ``"."`` or ``","``.
    thousands
        What text may have between thousands, such as ``","`` or ``"."``. Groups of digits must be whole: 1.5 is not 15.
    """

    decimal: str = field(default=".", kw_only=True)
    thousands: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decimal not in (".", ","):
            raise SchemaError('decimal must be "." or ","', 'write decimal = "," or leave it out')
        mark: Any = self.thousands
        if mark is not None:
            odd = not isinstance(mark, str) or len(mark) != 1 or mark.isalnum() or mark in "+-\n\r"
            if odd or mark == self.decimal:
                remedy = 'write for example thousands = "," or thousands = " ", or leave it out'
                raise SchemaError("thousands must be one sign, another than decimal", remedy)

    @cached_property
    def _grouped(self) -> re.Pattern[str]:
        """Groups of digits; the last has three, those before it two or three."""
        mark, point = re.escape(self.thousands or ""), re.escape(self.decimal)
        return re.compile(rf"[+-]?[0-9]{{1,3}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}(?:{point}[0-9]*)?")

    @property
    def usual_text(self) -> bool:
        """Whether nothing is declared about how numbers are written."""
        return super().usual_text and self.decimal == "." and self.thousands is None

    def number(self, text: str, kind: Any) -> Any:  # noqa: ANN401 - float or Decimal
        """Text, without spaces around it, as a ``kind`` of number; underscores are Python's, not a table's."""
        if self.thousands is not None and self.thousands in text:
            text = text.replace(self.thousands, "") if self._grouped.fullmatch(text) else "_"
        if self.decimal != ".":
            text = "_" if "." in text else text.replace(self.decimal, ".")
        try:
            if "_" not in text:
                return kind(text)
        except (ValueError, InvalidOperation):
            pass
        point = "point" if self.decimal == "." else "comma"
        raise TableError(
            "text that is not a number",
            f"write digits, with a {point} for decimals; declare decimal, thousands or null_values if the file has its "
            "own way, or leave the column out",
        )
