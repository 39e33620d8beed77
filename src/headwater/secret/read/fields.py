"""The columns that a file must have: given by the schema, never by the file."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headwater.public.categories import Category
from headwater.public.columns import Column
from headwater.public.errors import PERSON_MISSING, TableError, listed
from headwater.public.numbers import Number, WrittenNumber
from headwater.public.schema import InputSchema

DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
EXTRA = "add them to the schema, or leave them out: ignore_extra = true at the top of the schema file"


@dataclass(frozen=True)
class Fields:
    """The columns of a schema, in its order."""

    columns: Mapping[str, Column]
    ignore_extra: bool = False
    named: bool = True
    person: str | None = None
    """The column that names the person, if there is one: the schema does not name it."""

    def empty_is_text(self, name: str) -> bool:
        column = self.columns[name]
        return isinstance(column, Category) and "" in column.values and not column.missing

    def indices(self, header: Sequence[str], delimiter: str | None = None) -> list[int]:
        """Where in ``header`` the columns of the schema are, or an error."""
        names = list(self.columns)
        if not self.named:
            if len(header) < len(names) or (len(header) > len(names) and not self.ignore_extra):
                problem = f"the file has {len(header)} column(s), but the schema has {len(names)}"
                raise TableError(problem, "give a file with one column for each axis")
            return list(range(len(names)))
        if missing := [name for name in names if name not in header]:
            raise self._absent(missing, header, delimiter)
        if twice := [name for name in names if header.count(name) > 1]:
            raise TableError(f"two columns have the same name ({listed(twice)})", "rename one of them")
        if (extra := len(header) - len(names)) and not self.ignore_extra:
            also = ", and two columns have the same name" if len(set(header)) < len(header) else ""
            raise TableError(f"{extra} column(s) that the schema does not name{also}", EXTRA)
        return [header.index(name) for name in names]

    def _absent(self, missing: list[str], header: Sequence[str], delimiter: str | None) -> TableError:
        problem = f"missing column {listed(missing)}"
        if delimiter is not None and (other := divided_by(delimiter.join(header), delimiter, set(self.columns))):
            return TableError(problem, _declare(other))
        if missing == [self.person]:
            return TableError(f"{problem}, which names the person", PERSON_MISSING)
        return TableError(problem, "the first line must hold the column names, as the schema writes them")


def divided_by(header: str, delimiter: str, names: set[str]) -> str | None:
    found = {}
    for mark in DELIMITERS:
        with suppress(csv.Error, StopIteration):
            found[mark] = len(names & set(next(csv.reader([header], delimiter=mark, strict=True))))
    best = max(found, key=lambda mark: found[mark], default=delimiter)
    return best if found and found[best] > found.get(delimiter, 0) else None


def _declare(delimiter: str) -> str:
    wrote = "\\t" if delimiter == "\t" else delimiter
    return f'its fields are divided by {DELIMITERS[delimiter]}: declare delimiter = "{wrote}" in the schema file'


def other_delimiter(header: str, delimiter: str, names: set[str]) -> TableError | None:
    other = divided_by(header, delimiter, names)
    return None if other is None else TableError("a header that is divided otherwise", _declare(other))


def fields_of(schema: Any, ignore_extra: bool = False) -> Fields:  # noqa: ANN401 - a Schema or a UnitCube
    if not hasattr(schema, "columns"):
        return Fields({f"x{axis}": Number(0, 1) for axis in range(schema.dimension)}, ignore_extra, named=False)
    person = schema.person if isinstance(schema, InputSchema) else None
    return Fields(schema.columns, ignore_extra, person=person)


def usual_text(column: Column) -> bool:
    """Whether values are written in the usual way, and no value is also one of the column's ``null_values``."""
    if getattr(column, "format", None) is not None or (isinstance(column, WrittenNumber) and not column.is_plain):
        return False
    for text in column.null_values:
        try:
            if column.text(text) is not None:
                return False
        except TableError:
            continue
    return True
