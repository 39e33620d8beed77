"""How numbers are written: the sign before decimals, and what stands between thousands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import InvalidOperation
from functools import cached_property
from typing import Any

from headwater.table.bounded import Bounded
from headwater.table.errors import SchemaError, TableError
from headwater.table.file_options import check_marks


@dataclass(frozen=True, repr=False)
class WrittenNumber(Bounded):
    """A column of numbers, and how text has them.

    Parameters
    ----------
    decimal
        What text has before decimals: ``"."`` or ``","``.
    thousands
        What text may have between thousands, such as ``","`` or ``"."``. Groups of digits must be whole: 1.5 is not 15,
        and 0.125 is not 125.
    """

    decimal: str = field(default=".", kw_only=True)
    thousands: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            check_marks(self.decimal or "", self.thousands)
        except ValueError as error:
            remedy = 'write for example decimal = "," and thousands = ".", or leave them out'
            raise SchemaError(str(error), remedy) from None

    @cached_property
    def _grouped(self) -> re.Pattern[str]:
        """Groups of digits; the last has three, those before it two or three. No thousands begin with 0."""
        mark, point = re.escape(self.thousands or ""), re.escape(self.decimal)
        return re.compile(rf"[+-]?[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}(?:{point}[0-9]*)?")

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
            sender=f"write digits, with a {point} for decimals",
        )
