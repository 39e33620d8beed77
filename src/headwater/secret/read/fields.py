"""What is declared about files: how they are to be read, and which columns they must have."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headwater.public.categories import Category
from headwater.public.columns import Column
from headwater.public.errors import PERSON_MISSING, TableError, listed
from headwater.public.numbers import Number
from headwater.public.schema import FILE_KEYS, InputSchema, check_reading
from headwater.public.tally import check_policy

DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
EXTRA = "add them to the schema, or leave them out: ignore_extra = true at the top of the schema file"


def divided(line: str) -> dict[str, list[str]]:
    """The fields of a line of CSV, for each delimiter that it may have."""
    found = {}
    for mark in DELIMITERS:
        with suppress(csv.Error, StopIteration):
            found[mark] = next(csv.reader([line], delimiter=mark, strict=True))
    return found


@dataclass(frozen=True)
class Options:
    """How files are to be read."""

    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    multiline: bool = False
    ignore_extra: bool = False
    batch_rows: int = 65536
    block_bytes: int = 1 << 22
    line_bytes: int = 1 << 26
    follow: bool = False
    poll_seconds: float = 1.0
    stdin_continues: bool = False
    bad_rows: str = "stop"

    def __post_init__(self) -> None:
        check_policy(self.bad_rows)
        for key, name in FILE_KEYS.items():
            check_reading(key, getattr(self, name))
        for name in ("batch_rows", "block_bytes", "line_bytes", "poll_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")


@dataclass(frozen=True)
class Fields:
    """The columns of a schema, in its order: given by the schema, never by the file."""

    columns: Mapping[str, Column]
    ignore_extra: bool = False
    named: bool = True
    person: str | None = None
    """The column that names the person, if there is one: the schema does not name it."""

    @staticmethod
    def of(schema: Any, *, ignore_extra: bool = False) -> Fields:  # noqa: ANN401 - a Schema or a UnitCube
        if not hasattr(schema, "inputs"):
            return Fields({f"x{axis}": Number(0, 1) for axis in range(schema.dimension)}, ignore_extra, named=False)
        person = schema.person if isinstance(schema, InputSchema) else None
        return Fields(schema.inputs, ignore_extra, person=person)

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
            problem = f"missing column {listed(missing)}"
            if delimiter is not None and (remedy := self.other_delimiter(delimiter.join(header), delimiter)):
                raise TableError(problem, remedy)
            if missing == [self.person]:
                raise TableError(f"{problem}, which names the person", PERSON_MISSING)
            raise TableError(problem, "the first line must hold the column names, as the schema writes them")
        if twice := [name for name in names if header.count(name) > 1]:
            raise TableError(f"two columns have the same name ({listed(twice)})", "rename one of them")
        if (extra := len(header) - len(names)) and not self.ignore_extra:
            also = ", and two columns have the same name" if len(set(header)) < len(header) else ""
            raise TableError(f"{extra} column(s) that the schema does not name{also}", EXTRA)
        return [header.index(name) for name in names]

    def other_delimiter(self, header: str, delimiter: str) -> str | None:
        """What to do if the first line of a file shows more of the columns when it is divided otherwise."""
        found = {mark: len(self.columns.keys() & {*names}) for mark, names in divided(header).items()}
        best = max(found, key=lambda mark: found[mark], default=delimiter)
        if found.get(best, 0) <= found.get(delimiter, 0):
            return None
        wrote = "\\t" if best == "\t" else best
        return f'its fields are divided by {DELIMITERS[best]}: declare delimiter = "{wrote}" in the schema file'
