"""What can be wrong with a table or with a schema, said so that a person can put it right.

An error names the place, the kind of the wrong value and the remedy. It never holds the value itself: that may be
somebody's, and errors end up in logs.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
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
        file: str | None = None,
        line: int | None = None,
        row: int | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(problem, remedy)
        self.problem, self.remedy = problem, remedy
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
        """A copy for who sent the records: without the remedy, which is often a matter of the schema."""
        found = copy(self)
        found.remedy = ""
        return found

    def without_row(self) -> Self:
        """A copy without the row: rows are numbered inside of a batch, which means nothing later."""
        found = copy(self)
        found.row = None
        return found

    def __str__(self) -> str:
        where = [self.file] if self.file is not None else []
        where += [f"line {self.line}"] if self.line is not None else []
        where += [f"row {self.row}"] if self.row is not None and self.line is None else []  # which is of the batch
        where += [f"column {quoted(self.column)}"] if self.column is not None else []
        said = f"{self.problem}; {self.remedy}" if self.remedy else self.problem
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
    file, line, row, column
        Where it is, as far as that is known.

    Examples
    --------
    >>> print(SchemaError("low is missing", "write low = 0", column="age").at(file="schema.toml"))
    schema.toml, column "age": low is missing; write low = 0
    """


def need(condition: bool, problem: str, remedy: str, column: str | None = None) -> None:
    """Refuse a declaration unless a condition holds."""
    if not condition:
        raise SchemaError(problem, remedy, column=column)


PERSON_MISSING = "give that column in addition to those of the schema, or name another one by person= (--person)"
"""What to do if the column that names the person is not there."""
UNREADABLE = TableError("a value of a kind that cannot be read", "see which kinds the column takes")


def failures() -> tuple[type[BaseException], ...]:
    """What a library or an object in a record may raise: a panic of Polars is no `Exception`.

    >>> issubclass(ValueError, failures()), issubclass(KeyboardInterrupt, failures())
    (True, False)
    """
    panic = getattr(getattr(sys.modules.get("polars"), "exceptions", None), "PanicException", None)
    return (Exception,) if panic is None else (Exception, panic)


def refusal(error: BaseException, otherwise: TableError = UNREADABLE) -> TableError:
    if isinstance(error, MemoryError):
        raise error
    return (error if isinstance(error, TableError) else otherwise).at()  # a copy: what was raised keeps its frames


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


def listed(names: Sequence[str]) -> str:
    """The first few names, shortened where a record has a name as long as it likes, and how many more there are."""
    shown = ", ".join(quoted(name if len(name) <= 200 else f"{name[:200]}…") for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


def closest(missing: Sequence[str], names: Sequence[str], header: Sequence[str]) -> list[str]:
    """The names of a file that come closest to wanted names that it does not have."""
    found = len(names) - len(missing)
    free = [name for name in header if name not in names]
    plain = {plain_name(name): name for name in free}
    close = []
    for name in missing:
        alike = [plain[plain_name(name)]] if plain_name(name) and plain_name(name) in plain else []
        if not alike and 2 * found >= len(names):
            alike = difflib.get_close_matches(name, free, 1)
        close += [one for one in alike if one not in close]
    return close


def plain_name(name: str) -> str:
    """A name without signs and without the case of letters."""
    return re.sub(r"[\W_]", "", name).casefold()
