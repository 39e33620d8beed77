"""The schema of a table: its columns, in order, with all that may be in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike, fspath
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from headwater.public.bad_rows import BadRow, EncodedBatch, check_policy, complete_records, names_person
from headwater.public.build import build
from headwater.public.column import Column
from headwater.public.columns import COLUMN_KINDS
from headwater.public.declared import also_open, check_format, declared_columns
from headwater.public.errors import SchemaError, TableError, is_unicode, listed
from headwater.public.file_options import FILE_KEYS, declared_options
from headwater.public.frames import columns_of, kind_of
from headwater.public.partition import Partition, Points
from headwater.public.schema_files import FORMAT, read_schema_file, write_schema_file
from headwater.public.series import read_column
from headwater.public.tally import Tally
from headwater.public.text_options import usual
from headwater.public.unit_cube import MOST_AXES, UnitCube


class Schema:
    """The columns of a table: declared, never learned, and never changed.

    Parameters
    ----------
    columns
        Columns by name, in order; names that are no Python names go in a dictionary: ``Schema({"dep time": …})``.
    more
        Columns as keywords: ``Schema(age=Integer(0, 120))``. At most 1000 columns in all.

    Examples
    --------
    >>> from headwater.public.columns import Category, Number
    >>> trips = Schema(distance=Number(0, 50), payment=Category("card", "cash"))
    >>> points = trips.encode([{"distance": 12.5, "payment": "cash"}])
    >>> points
    array([[0.25, 0.5 ]])
    >>> trips.decode(points, "records")
    [{'distance': 12.5, 'payment': 'cash'}]
    """

    _items: tuple[tuple[str, Column], ...]
    bad_rows: str | None = None
    """What is declared about rows that are no records (`headwater.public.bad_rows`): not part of what a record is."""
    reading: Mapping[str, Any] = MappingProxyType({})
    """What is declared about files of records (`headwater.public.file_options`): their encoding, their delimiter, …"""

    def __init__(self, columns: Mapping[str, Column] | None = None, /, **more: Column) -> None:
        if not (columns is None or isinstance(columns, Mapping)):
            raise SchemaError(
                f"a schema is declared, not taken from a {type(columns).__name__}: bounds come from what you know",
                "write such as Schema(age=Integer(0, 120)); headwater.draft(table) and `headwater schema FILE` help",
            )
        named: dict[str, Column] = dict(columns or {})
        twice = [name for name in more if name in named]
        if twice:
            raise SchemaError("the column is declared twice", "declare it once", column=twice[0])
        named |= more
        if not named:
            raise SchemaError("a schema must have a column", "declare one, such as Schema(age=Integer(0, 120))")
        if len(named) > MOST_AXES:
            raise SchemaError(
                f"a schema can have at most {MOST_AXES} columns, not {len(named)}",
                "leave out the ones that matter least",
            )
        for name, column in named.items():
            if not (name and isinstance(name, str)):
                raise SchemaError("the name of a column must be text, and not empty", "give it a name")
            if not is_unicode(name):
                raise SchemaError("the name of a column holds half a character", "write it in Unicode")
            if not isinstance(column, Column):
                kinds = ", ".join(kind.__name__ for kind in COLUMN_KINDS.values())
                raise SchemaError(
                    f"a column must be one of {kinds}, not {type(column).__name__}",
                    "write such as Number(0, 1)",
                    column=name,
                )
            try:
                column.check()  # open bounds are refused here, with what to write
            except SchemaError as error:
                others = {one: column for one, column in named.items() if one != name}
                raise SchemaError(error.problem, error.remedy + also_open(others), column=name) from None
        object.__setattr__(self, "_items", tuple(named.items()))

    @property
    def columns(self) -> Mapping[str, Column]:
        """The columns by name, in order."""
        return MappingProxyType(dict(self._items))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(name for name, _ in self._items)

    @property
    def dimension(self) -> int:
        """How many columns there are."""
        return len(self._items)

    @cached_property
    def partition(self) -> Partition:
        """The partition of the cube that the columns span."""
        return Partition([column.axis for _, column in self._items])

    def encode(self, table: object) -> Points:
        """A batch as an array of shape ``(n, d)``, refused whole if any of it is wrong.

        Parameters
        ----------
        table
            A data frame, an Arrow table, a dictionary of columns, records or one record, or an array with the columns
            in order. Columns that the schema does not name are an error, or left out if it declares ``ignore_extra``
            (`with_reading`). Each value is read by itself, whatever else is in the table; where a library has put whole
            numbers and fractions into one array before, they are what that array holds.

        Raises
        ------
        TableError
            It names the column and the first row that is wrong, not the value.
        """
        return self.encode_batch(table).points

    def encode_batch(self, table: object, *, bad_rows: str = "stop", beside: str | None = None) -> EncodedBatch:
        """A batch with all that is known of it: its points, its bad rows, and what was clipped. Not private.

        Parameters
        ----------
        table
            As for `encode`.
        bad_rows
            ``"stop"`` refuses the batch if any row is bad. ``"null"`` and ``"quarantine"`` say which rows are; what is
            wrong with a table as a whole, such as a missing column, is refused in any case.
        beside
            A further column that the table must have, which names the person. It is read as it is, and not encoded.
        """
        stop = check_policy(bad_rows) == "stop"
        wrong, unread = dict[int, TableError](), tuple[int, ...]()
        names = self.names if beside is None else (*self.names, beside)
        extra: dict[str, bool] = {"ignore_extra": self.reading.get("ignore_extra", False)}
        if not stop and kind_of(table) == "records":
            given = [table] if isinstance(table, Mapping) else cast("Sequence[Mapping[str, Any]]", table)
            table, wrong = complete_records(given, names, beside, **extra)
            unread = tuple(row for row in wrong if not names_person(given[row], beside))
        series, rows = columns_of(table, names, beside, **extra)
        points, tally = np.empty((self.dimension, rows)).T, Tally(rows)  # each column in one piece
        for axis, (name, column) in enumerate(self._items):
            try:
                places, counts, errors = column.encode_column(series[name], stop=stop)
            except TableError as error:
                raise error.at(column=name) from None
            if not errors and len(places) != rows:
                raise TableError(
                    f"the column has {len(places)} values, but the first has {rows}",
                    "give every column a value for each row",
                    column=name,
                )
            for row, found in errors.items():
                wrong.setdefault(row, found.at(row=row, column=name))
            if stop and wrong:  # of the columns to come only an earlier row matters
                continue
            points[:, axis] = places
            for kind, count in counts.items():
                tally.add(name, kind, count)
        if stop and wrong:
            raise wrong[min(wrong)]
        bad = tuple(BadRow(row, wrong[row]) for row in sorted(wrong))
        tally.add_bad(one.error for one in bad)
        return EncodedBatch(points, bad, tally, read_column(series[beside], beside, rows) if beside else None, unread)

    def decode(self, points: Points, kind: str | None = None) -> Any:  # noqa: ANN401 - a table of any library
        """Points as a table; its types are those of the schema.

        Parameters
        ----------
        points
            An array of shape ``(n, d)`` in the unit cube.
        kind
            ``"pandas"``, ``"polars"``, ``"arrow"``, ``"arrow-batch"``, ``"columns"`` (a dictionary of arrays, the
            default), ``"records"`` or ``"numpy"``.
        """
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.dimension:
            raise ValueError(f"points must have shape (n, {self.dimension}), not {points.shape}")
        return build(self.columns, points, kind or "columns")

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain values: the content of a schema file."""
        policy = {} if self.bad_rows is None else {"bad_rows": self.bad_rows}
        policy |= self.reading
        return {"headwater": FORMAT, **policy, "columns": {name: column.to_dict() for name, column in self._items}}

    def with_bad_rows(self, policy: str | None) -> Schema:
        """The same schema with another policy for rows that are no records.

        Parameters
        ----------
        policy
            ``"stop"``, ``"null"`` or ``"quarantine"``; None if it is to say nothing.
        """
        return _unpickled(dict(self._items), None if policy is None else check_policy(policy), self.reading)

    def with_reading(self, **declared: Any) -> Schema:  # noqa: ANN401 - texts, and a truth value
        """The same schema with another declaration of how files of records are read; options of a command win over it.

        Parameters
        ----------
        declared
            ``encoding`` (such as ``"latin-1"``), ``delimiter``, ``input_format`` (``"csv"``, ``"jsonl"``, ``"json"``,
            ``"parquet"``, ``"arrow"``) and ``ignore_extra``, which leaves out columns that the schema does not name,
            of tables in memory too.
        """
        unknown = [key for key in declared if key not in FILE_KEYS]
        if unknown:
            raise SchemaError(f"unknown key {listed(unknown)}", f"known keys are {', '.join(sorted(FILE_KEYS))}")
        return _unpickled(dict(self._items), self.bad_rows, declared_options(declared))

    def for_releases(self) -> Schema:
        """The same schema for reading releases back: they are written in the usual way, however the data were."""
        return Schema(usual(dict(self._items)))

    @classmethod
    def from_dict(cls, declared: Mapping[str, Any]) -> Schema:
        """A schema as `to_dict` describes it.

        Parameters
        ----------
        declared
            The content of a schema file: the version of the format and a mapping of columns.
        """
        columns, policy, reading = declared_columns(declared)
        return cls(columns).with_bad_rows(policy).with_reading(**reading)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Schema:
        """The schema of a ``.toml`` or ``.json`` file.

        Parameters
        ----------
        path
            The file.
        """
        try:
            return cls.from_dict(read_schema_file(path))
        except SchemaError as error:
            raise error.at(file=fspath(path)) from None

    def save(self, path: str | PathLike[str]) -> None:
        """Write the schema to a ``.toml`` or ``.json`` file.

        Parameters
        ----------
        path
            The file; its ending decides the format.
        """
        write_schema_file(self.to_dict(), path)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a schema cannot be changed: make another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a schema cannot be changed: make another one")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._items == other._items

    def __hash__(self) -> int:
        return hash(self._items)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (dict(self._items), self.bad_rows, dict(self.reading))

    def __repr__(self) -> str:
        if all(name.isidentifier() for name in self.names):
            return f"Schema({', '.join(f'{name}={column!r}' for name, column in self._items)})"
        return f"Schema({dict(self._items)!r})"


def _unpickled(columns: dict[str, Column], policy: str | None, reading: Mapping[str, Any]) -> Schema:
    schema = Schema(columns)
    object.__setattr__(schema, "bad_rows", policy)
    object.__setattr__(schema, "reading", MappingProxyType(dict(reading)))
    return schema


def schema_from_dict(declared: Any) -> Schema | UnitCube:  # noqa: ANN401 - whatever a file holds
    """The schema that a ``to_dict()`` describes, whichever kind it is.

    >>> schema_from_dict(UnitCube(2).to_dict())
    UnitCube(dimension=2)
    """
    if isinstance(declared, Mapping) and "unit_cube" in declared:
        check_format(declared, {"headwater", "unit_cube"})
        dimension = declared["unit_cube"]
        if isinstance(dimension, bool) or not isinstance(dimension, int) or not 1 <= dimension <= MOST_AXES:
            raise SchemaError(
                f"unit_cube must be a whole number from 1 to {MOST_AXES}", "write for example unit_cube = 2"
            )
        return UnitCube(dimension)
    return Schema.from_dict(declared)
