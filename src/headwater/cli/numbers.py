"""Numbers of options: read, or refused with the way to write them."""

from __future__ import annotations

import re
from typing import Any

import typer


def integer(text: str) -> int:
    """A whole number, as it is given for any option.

    >>> integer("10_000"), integer("10,000")
    (10000, 10000)
    """
    plain = str(text).strip()
    if not re.fullmatch(r"-?\d{1,3}(,\d{3})+|-?\d+(_\d+)*", plain, re.ASCII) or len(plain) > _LONGEST:
        raise typer.BadParameter(f"write a whole number in digits, such as 10000 or 10_000, not {text!r}")
    return int(plain.replace(",", "").replace("_", ""))


def number(text: str) -> float:
    """A number, as it is given for any option.

    >>> number("1e-9"), number("0.5")
    (1e-09, 0.5)
    """
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"write a number such as 1, 0.5 or 1e-9, not {text!r}") from None


_LONGEST = 30  # digits: more are no number of anything
INTEGER: dict[str, Any] = {"parser": integer, "metavar": "INTEGER"}
NUMBER: dict[str, Any] = {"parser": number, "metavar": "FLOAT"}
