"""What happens to rows that are no records of the schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.errors import TableError
from headwater.public.failures import failures
from headwater.public.frames import NO_RECORD, check_record, kind_of, record_of
from headwater.public.narrowing import refusal
from headwater.public.partition import Flags, Points
from headwater.public.series import Values
from headwater.public.tally import Tally

POLICIES = ("stop", "null", "quarantine")
"""``stop``: the batch is refused. ``null``: the record has arrived and is nowhere. ``quarantine``: the same, and its
text goes to a file beside the state that is as secret as the data."""

WAY_OUT = "or go on without such rows: --bad-rows null or quarantine (bad_rows=)"


def check_policy(policy: object) -> str:
    """A policy, or an error that says which there are."""
    if policy not in POLICIES:
        raise ValueError(f"bad_rows must be one of {', '.join(POLICIES)}, not {policy!r}")
    return str(policy)


def policy_of(bad_rows: str | None, schema: object) -> str:
    """What happens to bad rows: as given, else as the schema says, else ``"stop"``."""
    return check_policy(bad_rows or getattr(schema, "bad_rows", None) or "stop")


def with_way_out(error: TableError) -> TableError:
    """An error about a row, whose remedy also says how to go on without such rows."""
    if WAY_OUT in error.remedy:
        return error
    named = error.at()
    named.remedy = f"{error.remedy}; {WAY_OUT}"
    return named


@dataclass(frozen=True)
class BadRow:
    """A row that is no record.

    Parameters
    ----------
    text
        The row as it came, if that is known. As secret as the data.
    person
        The text that names its person, where records belong to people and it can be read. As secret as the data.
    """

    row: int
    error: TableError
    text: str = ""
    person: str | None = None


@dataclass(frozen=True)
class EncodedBatch:
    """A batch as points, where bad rows are any point at all.

    Parameters
    ----------
    bad
        The rows that are no records; none under the policy ``stop``.
    beside
        The column that was read beside those of the schema, if one was asked for.
    unread
        Rows of which not even the columns were found.
    """

    points: Points
    bad: tuple[BadRow, ...]
    tally: Tally
    beside: Values | None = None
    unread: tuple[int, ...] = ()

    @property
    def flags(self) -> Flags | None:
        """Which rows are bad, None if there are none."""
        return flags_of([bad.row for bad in self.bad], len(self.points)) if self.bad else None


def row_texts(table: Any, bad: Sequence[BadRow]) -> list[BadRow]:  # noqa: ANN401 - a table of any library
    """Bad rows of a table with their text: the values as JSON."""
    kind = kind_of(table)
    if kind == "numpy":
        found = [{str(axis): value for axis, value in enumerate(np.atleast_1d(table[one.row]).tolist())} for one in bad]
    elif kind == "records":
        records = [table] if isinstance(table, Mapping) else table
        found = [_members(records[one.row]) for one in bad]
    else:
        names = list(table) if kind == "columns" else list(getattr(table, "column_names", None) or table.columns)
        columns = {str(name): table[name] for name in names}
        found = [{name: item_of(column, one.row) for name, column in columns.items()} for one in bad]
    return [replace(one, text=row_text(said)) for one, said in zip(bad, found, strict=True)]


def _members(record: object) -> dict[Any, Any]:
    found = record_of(record)
    return {"": record} if found is None else found


def row_text(values: Mapping[Any, Any]) -> str:
    """The values of a row as JSON; where one cannot be written, what kind it is: no bad row stops a run by its text."""
    try:
        return json.dumps(values, default=str)
    except failures():  # whatever an object raises when it is written
        return json.dumps({_written(name): _written(value) for name, value in values.items()})


def _written(value: Any) -> str:  # noqa: ANN401 - a value of any type
    try:
        return value if isinstance(value, str) else str(value)
    except failures():  # such as a number of more digits than Python writes
        return f"an object of type {type(value).__name__}"


def item_of(column: Any, row: int) -> Any:  # noqa: ANN401 - a column of any library
    """One value of a column, as its library has it; a moment that Python has no date for as a number or in words."""
    item: Any = None
    try:
        item = column.iloc[row] if hasattr(column, "iloc") else column[row]
        return item.as_py() if hasattr(item, "as_py") else item
    except failures():  # whatever a library raises, or an object in the record
        pass
    try:
        return item.value
    except failures():
        return "a value that cannot be written"


def flags_of(rows: list[int], size: int) -> Flags:
    """An array that is True at these places."""
    flags: NDArray[np.bool_] = np.zeros(size, dtype=np.bool_)
    flags[rows] = True
    return flags


def names_person(record: object, person: str | None) -> bool:
    """Whether a record, of whatever columns, has the one that names the person; None is a key like any other."""
    try:
        return person is not None and isinstance(record, Mapping) and person in record
    except failures():  # of a key
        return False


def complete_records(
    records: Any,  # noqa: ANN401 - one record or many
    names: Sequence[str],
    person: str | None = None,
    *,
    ignore_extra: bool = False,
) -> tuple[list[Any], dict[int, TableError]]:
    """Records with the right keys; those with others are replaced by empty ones, and their errors are kept.

    Of those only the person stays. With ``ignore_extra`` further keys are no error.
    """
    found, wrong, nothing = list[Any](), dict[int, TableError](), dict.fromkeys(names)
    for row, given in enumerate([records] if isinstance(records, Mapping) else records):
        record = given if type(given) is dict else record_of(given)
        try:
            check_record(record, names, person, ignore_extra=ignore_extra)
            found.append(record)
        except failures() as error:  # ours, or of a key
            named = record is not None and names_person(record, person)
            found.append({**nothing, person: record[person]} if record is not None and named else nothing)
            wrong[row] = refusal(error, NO_RECORD).at(row=row)
    return found, wrong
