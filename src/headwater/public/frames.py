"""Tables of any library: what kind they are, and their columns by name.

No library is imported for this: whoever has a table has imported its library already.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.errors import GIVE_PERSON, LEAVE_OUT, PERSON_MISSING, TableError, listed, quoted
from headwater.public.failures import failures
from headwater.public.narrowing import refusal
from headwater.public.near_names import closest

TABLE_KINDS = ("pandas", "polars", "arrow", "arrow-batch", "columns", "records", "numpy")
"""Kinds of tables: two kinds of data frames, two of Arrow, dictionaries of columns, lists of records, 2-D arrays."""
_FRAMES = {"pandas": ("pandas", "DataFrame"), "polars": ("polars", "DataFrame"), "arrow": ("pyarrow", "Table")}


def kind_of(table: object) -> str:
    """The kind of a table, one of `TABLE_KINDS`. One record by itself counts as a list of records.

    >>> kind_of({"age": [31, 45]}), kind_of({"age": 31}), kind_of([{"age": 31}])
    ('columns', 'records', 'records')
    """
    if isinstance(table, Mapping):
        return "columns" if not table or any(map(_is_column, table.values())) else "records"
    if isinstance(table, np.ndarray):
        return "numpy"
    if isinstance(table, list | tuple):
        return "records"  # whatever is in it: one that is no record does not change what the others are
    for kind, (library, name) in _FRAMES.items():
        if library in sys.modules and isinstance(table, getattr(sys.modules[library], name, ())):
            return kind
    if type(table).__name__ == "RecordBatch":
        return "arrow-batch"
    if hasattr(table, "collect"):
        raise TableError(f"a plan of a table ({type(table).__name__}), not a table", "collect it first")
    raise TableError(
        f"a table cannot be of type {type(table).__name__}",
        "give a data frame, an Arrow table, a dictionary of columns, a list of records or a 2-D array",
    )


def columns_of(
    table: Any,  # noqa: ANN401 - of any library
    names: Sequence[str],
    person: str | None = None,
    *,
    ignore_extra: bool = False,
) -> tuple[dict[str, Any], int]:
    """The columns of a table by name, and how many rows it has; exactly these names in any order, or an error.

    With ``ignore_extra`` there may be others, which are left out; an array has no names, so it has these and no others.
    """
    kind = kind_of(table)
    if kind == "numpy":
        return _of_array(table, names, person)
    if kind == "records":
        return _of_records([table] if isinstance(table, Mapping) else table, names, person, ignore_extra)
    if kind == "columns":
        check_names(list(table), names, person, ignore_extra=ignore_extra)
        ragged = [name for name in names if not _is_column(table[name])]
        if ragged:
            raise TableError("one value where other columns have many", "give a list of values", column=ragged[0])
        return {name: table[name] for name in names}, len(table[names[0]])
    if kind == "arrow-batch" or kind == "arrow":
        check_names(table.schema.names, names, person, ignore_extra=ignore_extra)
        return {name: table.column(name) for name in names}, table.num_rows
    check_names(list(table.columns), names, person, ignore_extra=ignore_extra)
    return {name: table[name] for name in names}, len(table)


def check_names(
    found: Sequence[Any], names: Sequence[str], person: str | None = None, *, ignore_extra: bool = False
) -> None:
    """Raise an error unless the names found are the names wanted, in any order, or with ``ignore_extra`` hold them.

    Names that are not in the schema are shown only if all that are in it were found. Otherwise what was taken for
    names may be a row of data.
    """
    times = Counter(found)
    absent = [name for name in names if name not in times]
    if absent:
        close = closest(absent, names, [str(name) for name in times])
        if absent == [person] and not close:
            problem = "the column that names the person is missing"
            raise TableError(problem, PERSON_MISSING, sender=GIVE_PERSON, column=person)
        also = f" (the table has {listed(close)})" if close else ""
        others = f", as are {len(absent) - 1} others" if len(absent) > 1 else ""
        remedy = "give every column of the schema, under its name"
        raise TableError(f"the column is missing{others}{also}", remedy, column=absent[0])
    twice = [name for name in names if times[name] > 1]
    if twice:
        raise TableError("there are two columns of this name", "rename or leave out one of them", column=twice[0])
    extra = [str(name) for name in times if name not in names]
    if extra and not ignore_extra:
        raise TableError(
            f"the schema has no column {listed(extra)}",
            "declare it in the schema, or leave it out: ignore_extra = true at the top of the schema file, in Python "
            "schema.with_reading(ignore_extra=True); if it says who a record belongs to, name it by person= instead",
            sender=LEAVE_OUT,
            column=extra[0],
        )


NO_RECORD = TableError(
    "a list of something else than records", "give a list of dictionaries, or a 2-D array with the columns in order"
)


def check_record(
    record: object, names: Sequence[str], person: str | None = None, *, ignore_extra: bool = False
) -> None:
    """Raise an error unless this is a record with the names wanted, in any order; others as `check_names` says."""
    if not isinstance(record, Mapping):
        raise NO_RECORD.at()
    check_names(list(record), names, person, ignore_extra=ignore_extra)


def _of_array(
    table: NDArray[Any],
    names: Sequence[str],
    person: str | None,
) -> tuple[dict[str, Any], int]:
    last = "" if person is None else f", and last the one that names the person ({quoted(person)})"
    if table.ndim != 2 or table.shape[1] != len(names):
        raise TableError(
            f"an array of shape {table.shape}, where (n, {len(names)}) was expected",
            f"give a 2-D array with one column for each column of the schema, in order{last}",
        )
    return {name: table[:, axis] for axis, name in enumerate(names)}, len(table)


def _of_records(
    records: Sequence[Any], names: Sequence[str], person: str | None, ignore_extra: bool
) -> tuple[dict[str, Any], int]:
    wanted = set(names)
    if not all(type(record) is dict for record in records):
        records = [record_of(record) for record in records]
    for row, record in enumerate(records):
        try:
            if record is None or record.keys() != wanted:
                check_record(record, names, person, ignore_extra=ignore_extra)
        except failures() as error:  # of a key
            raise refusal(error, NO_RECORD).at(row=row) from None
    return {name: [record[name] for record in records] for name in names}, len(records)


def record_of(record: object) -> dict[Any, Any] | None:
    """A record as a dictionary, None if it is none or does not say what is in it."""
    try:
        return dict(record) if isinstance(record, Mapping) else None
    except failures() as error:  # of the record
        refusal(error)
        return None


def _is_column(value: object) -> bool:
    """Whether an entry of a dictionary holds many values, or is one."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | bytearray | Mapping)
