"""What can be wrong with a table or with a schema, said so that a person can put it right.

An error names the place, the kind of the wrong value and the remedy. It never holds the value itself: that may be
somebody's, and errors end up in logs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from typing import Self


class _PlacedError(ValueError):
    """A problem, its remedy, and where it is."""

    def __init__(
        self,
        problem: str,
        remedy: str,
        *,
        sender: str | None = None,
        shown: str = "",
        file: str | None = None,
        line: int | None = None,
        row: int | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(problem, remedy)
        self.problem, self.remedy, self.sender, self.shown = problem, remedy, sender or remedy, shown
        self.file, self.line, self.row, self.column = file, line, row, column

    def at(
        self, *, file: str | None = None, line: int | None = None, row: int | None = None, column: str | None = None
    ) -> Self:
        """A copy that also says where: readers know files and lines, codecs know rows and columns.

        Parameters
        ----------
        file, line, row, column
            Where it is; what is None stays as it was.
        """
        located = copy(self)
        for name, value in (("file", file), ("line", line), ("row", row), ("column", column)):
            if value is not None:
                setattr(located, name, value)
        return located

    def for_sender(self) -> Self:
        """A copy for who sent the records and has neither the schema nor the command: its remedy is one for them.

        Names that were sent are left out: they may be somebody's values.
        """
        found = copy(self)
        found.remedy, found.shown = self.sender, ""
        return found

    def without_row(self) -> Self:
        """A copy that does not say which row it is: rows are numbered inside of a batch, which means nothing later."""
        found = copy(self)
        found.row = None
        return found

    def __str__(self) -> str:
        where = [self.file] if self.file is not None else []
        where += [f"line {self.line}"] if self.line is not None else []
        where += [f"row {self.row}"] if self.row is not None and self.line is None else []  # which is of the batch
        where += [f"column {quoted(self.column)}"] if self.column is not None else []
        said = f"{self.problem}{self.shown}; {self.remedy}"
        return f"{', '.join(where)}: {said}" if where else said


class TableError(_PlacedError):
    """A table or a file of records that does not fit its schema; nothing of it was counted.

    Rows are numbered from 0, lines of a file from 1.

    Parameters
    ----------
    problem
        What is wrong, without the value.
    remedy
        What to do.
    sender
        What can be done by somebody who only sends records, where ``remedy`` says more or something else.
    shown
        Names in a file, for its owner only, behind ``problem``.
    file, line, row, column
        Where it is, as far as that is known.

    Examples
    --------
    >>> error = TableError("text that is not a number", "write a number", row=3, column="age")
    >>> print(error.at(file="people.csv", line=5))
    people.csv, line 5, column "age": text that is not a number; write a number
    """


class UnreadableFileError(TableError):
    """A file of records that the operating system does not hand over."""


class SchemaError(_PlacedError):
    """A schema, or a schema file, that cannot be used.

    Parameters
    ----------
    problem
        What is wrong.
    remedy
        What to do.
    sender
        As in `TableError`; of no use here.
    shown
        As in `TableError`.
    file, line, row, column
        Where it is, as far as that is known.

    Examples
    --------
    >>> print(SchemaError("low is missing", "write low = 0", column="age").at(file="schema.toml"))
    schema.toml, column "age": low is missing; write low = 0
    """


UNDECLARED = (
    "add it to the schema, or leave it out: ignore_extra = true at the top of the schema file, or --ignore-extra, in "
    "Python headwater.read(path, schema, ignore_extra=True); "
    "a column that says who a record belongs to does not belong in the schema: a run names it by person= (--person)"
)
"""What to do about a column that the schema does not name."""
LEAVE_OUT = "leave it out"
"""The same, for the sender of the records."""
PERSON_MISSING = "give that column beside those of the schema, or name another one by person= (--person)"
"""What to do if the column that names the person is not there."""
GIVE_PERSON = "give that column beside those of the schema"
"""The same, for the sender of the records."""


def is_unicode(text: str) -> bool:
    r"""Whether text can be written to a file; JSON and Python let halves of characters through.

    >>> is_unicode("é"), is_unicode("\ud800")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def quoted(name: str) -> str:
    """A name in double quotes, on one line whatever is in it."""
    return json.dumps(name, ensure_ascii=not is_unicode(name))


_LONGEST = 200


def listed(names: Sequence[str]) -> str:
    """Names in a row: the first few of them, shortened where a record has a name as long as it likes, and how many more
    there are.
    """
    shown = ", ".join(quoted(name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…") for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
