"""How numbers are written: the sign before decimals, what stands between thousands, and the unit."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import InvalidOperation
from functools import cached_property
from typing import Any

from headwater.public.bounded import Bounded
from headwater.public.errors import SchemaError, TableError, is_unicode
from headwater.public.file_options import check_marks

LONGEST_UNIT = 20
"""Characters of a unit."""


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
    unit
        What text may have before or after the number, such as ``"$"``, ``"km"`` or ``"%"``. It is left out: 5 % is 5.
    """

    decimal: str = field(default=".", kw_only=True)
    thousands: str | None = field(default=None, kw_only=True)
    unit: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            check_marks(self.decimal or "", self.thousands)
        except ValueError as error:
            remedy = 'write for example decimal = "," and thousands = ".", or leave them out'
            raise SchemaError(str(error), remedy) from None
        if self.unit is not None:
            check_unit(self.unit)
            self.set(unit=self.unit.strip())

    @cached_property
    def _grouped(self) -> re.Pattern[str]:
        """Groups of digits; the last has three, those before it two or three. No thousands begin with 0."""
        mark, point = re.escape(self.thousands or ""), re.escape(self.decimal)
        return re.compile(rf"[+-]?[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}(?:{point}[0-9]*)?")

    @property
    def usual_text(self) -> bool:
        """Whether nothing is declared about how numbers are written."""
        return super().usual_text and self.decimal == "." and self.thousands is None and self.unit is None

    @cached_property
    def _null_numbers(self) -> frozenset[Any]:
        """The numbers among the texts that mean "missing": however such a number is written, it does."""
        found = set()
        for text in self.null_values:
            with suppress(TableError):
                found.add(self._read_text(text))
        return frozenset(found)

    def read_text(self, text: str) -> Any:  # noqa: ANN401 - an int or a float
        """As every column; a number that is one of `null_values` means "missing" also if it is written otherwise."""
        number = super().read_text(text)
        return None if self.null_values and number in self._null_numbers else number

    def without_unit(self, text: str) -> str:
        """Text, without spaces around it, without the unit, which may stand on either side, also behind the sign."""
        if self.unit is None:
            return text
        sign, rest = (text[0], text[1:]) if text.startswith(("+", "-")) else ("", text)
        if rest.startswith(self.unit):
            return sign + rest.removeprefix(self.unit).lstrip()
        return sign + rest.removesuffix(self.unit).rstrip()

    def number(self, text: str, kind: Any) -> Any:  # noqa: ANN401 - float or Decimal
        """Text, without spaces around it, as a ``kind`` of number; underscores are Python's, not a table's."""
        text = self.without_unit(text)
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
            f"write digits, with a {point} for decimals; declare decimal, thousands, unit or null_values if the file "
            "has its own way, or leave the column out",
            sender=f"write digits, with a {point} for decimals",
        )


def check_unit(unit: object) -> None:
    """Refuse what cannot be distinguished from a number."""
    odd = not isinstance(unit, str) or not unit.strip() or not is_unicode(unit) or len(unit) > LONGEST_UNIT
    if odd or any(sign.isdigit() or sign in "+-.,_\r\n" for sign in str(unit)):
        raise SchemaError(
            "unit must be text without digits, points, commas or signs of numbers", 'write for example unit = "km"'
        )
