"""What is printed: text from files is shown as it is written, and can neither style nor control the terminal."""

from __future__ import annotations

import unicodedata

from rich.console import Console
from rich.text import Text

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, writing direction, halves of characters, unassigned


def clean(text: str) -> str:
    r"""A text in which characters that a terminal would act on are written as escapes; line ends stay.

    >>> clean("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    hidden = (sign for sign in set(text) if sign != "\n" and unicodedata.category(sign) in _HIDDEN)
    return text.translate({ord(sign): sign.encode("unicode_escape").decode() for sign in hidden})


def shown(value: object, style: str = "") -> Text:
    """Any value as plain text for a table or a line: square brackets in it are no markup."""
    return Text(clean(str(value)), style=style)


def say(text: str, style: str = "") -> None:
    """Print a line that is never broken: lines are copied, and read by programs."""
    out.print(shown(text, style), soft_wrap=True)


def complain(text: str, style: str = "", label: str = "") -> None:
    """Print a line to standard error. ``style`` is that of the label, or of the whole line if there is none."""
    line = Text.assemble((f"{label} ", style), shown(text)) if label else shown(text, style)
    err.print(line, soft_wrap=True)
