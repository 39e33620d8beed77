"""The schema of a table: its columns, in order, with all that may be in them; and the file that declares it.

Schema files are TOML for people and JSON for programs, with one structure. They may also say how files of records are
read: their encoding, their delimiter, and how numbers and missing values are written in all columns.
"""

from __future__ import annotations

import codecs
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import tomli_w

from headwater.public.build import build
from headwater.public.categories import Boolean, Category
from headwater.public.columns import Column, Read
from headwater.public.cube import MOST_AXES, UnitCube
from headwater.public.derived import Derived, inputs
from headwater.public.errors import SchemaError, TableError, is_unicode, listed, need, quoted
from headwater.public.moments import Datetime, TimeOfDay
from headwater.public.numbers import Integer, Number
from headwater.public.partition import Partition, Points
from headwater.public.tables import columns_of, kind_of, names_person, objects_of, records_of
from headwater.public.tally import POLICIES, BadRow, EncodedBatch, Tally, check_policy

COLUMN_KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (Number, Integer, Category, Boolean, Datetime, TimeOfDay)
}
"""Kinds of columns by their names in schema files."""
FORMATS = ("csv", "jsonl", "json", "parquet", "arrow")
FILE_KEYS = {"input_format": "format"} | {key: key for key in ("delimiter", "encoding", "multiline", "ignore_extra")}
"""Keys at the top of a schema file, and the fields of `headwater.secret.read.fields.Options` that they are."""

CHANGING = ("bad_rows", *FILE_KEYS)
"""Keys of a schema that may change during a run: how files are read, and what happens to bad rows."""

_WIDE = ("utf-16", "utf-16-le", "utf-16-be")
_ESCAPES = ("unicode-escape", "raw-unicode-escape")  # several bytes may be one character, a line end among them
_BYTES = bytes(range(256)) + b"+AGE-\x1b$B~{"  # all of them, and what other encodings take for one character


TEXT_KEYS = ("null_values", "decimal", "thousands")
"""What a schema file may say for all columns that do not say it themselves."""


FORMAT = 1
"""The version of the format; newer ones are refused."""


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
    >>> from headwater import Category, Number
    >>> trips = Schema(distance=Number(0, 50), payment=Category("card", "cash"))
    >>> points = trips.encode([{"distance": 12.5, "payment": "cash"}])
    >>> points
    array([[0.25, 0.5 ]])
    >>> trips.decode(points, "records")
    [{'distance': 12.5, 'payment': 'cash'}]
    """

    declared: Mapping[str, Column | Derived]
    columns: Mapping[str, Column]
    """The columns of releases by name, in order."""
    inputs: Mapping[str, Column]
    """The columns that are read: those that are declared, and those that derived ones are computed from."""
    bad_rows: str | None = None
    """What is declared about invalid rows (`headwater.public.tally`): not part of what a record is."""
    reading: Mapping[str, Any] = MappingProxyType({})
    """What is declared about files of records: their encoding, their delimiter, …"""

    def __init__(self, columns: Mapping[str, Any] | None = None, /, **more: Column | Derived) -> None:
        problem = f"a schema is declared, not taken from a {type(columns).__name__}: bounds come from what you know"
        remedy = "write such as Schema(age=Integer(0, 120)); headwater.draft(table) and `headwater schema FILE` help"
        need(columns is None or isinstance(columns, Mapping), problem, remedy)
        named: dict[str, Column | Derived] = dict(columns or {})
        for name in more:
            need(name not in named, "the column is declared twice", "declare it once", name)
        named |= more
        need(bool(named), "a schema must have a column", "declare one, such as Schema(age=Integer(0, 120))")
        problem = f"a schema can have at most {MOST_AXES} columns, not {len(named)}"
        need(len(named) <= MOST_AXES, problem, "leave out the ones that matter least")
        for name, column in named.items():
            text: object = name
            is_text = isinstance(text, str) and text != ""
            need(is_text, "the name of a column must be text, and not empty", "give it a name")
            need(is_unicode(name), "the name of a column holds half a character", "write it in Unicode")
            kinds = ", ".join(kind.__name__ for kind in COLUMN_KINDS.values())
            problem = f"a column must be one of {kinds}, not {type(column).__name__}"
            need(isinstance(column, Column | Derived), problem, "write such as Number(0, 1)", name)
            try:
                column.check()  # open bounds are refused here, with what to write
            except SchemaError as error:
                others = {one: column for one, column in named.items() if one != name}
                raise SchemaError(error.problem, error.remedy + also_open(others), column=name) from None
        read = inputs(named)
        made = {k: v if isinstance(v, Column) else _derived(k, v, named.get(v.source)) for k, v in named.items()}
        object.__setattr__(self, "declared", MappingProxyType(named))
        object.__setattr__(self, "inputs", MappingProxyType(read))
        object.__setattr__(self, "columns", MappingProxyType(made))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.columns)

    @property
    def dimension(self) -> int:
        """How many columns there are."""
        return len(self.columns)

    @cached_property
    def partition(self) -> Partition:
        """The partition of the cube that the columns span."""
        return Partition([column.axis for column in self.columns.values()])

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
        """Points, bad rows and what was clipped, not private; ``beside`` is the column of the person, read as it is."""
        stop = check_policy(bad_rows) == "stop"
        wrong, unread = dict[int, TableError](), tuple[int, ...]()
        names = list(self.inputs) if beside is None else [*self.inputs, beside]
        extra: dict[str, bool] = {"ignore_extra": self.reading.get("ignore_extra", False)}
        if not stop and kind_of(table) == "records":
            given: Any = [table] if isinstance(table, Mapping) else table
            table, wrong = records_of(given, names, beside, **extra)
            unread = tuple(row for row in wrong if not names_person(given[row], beside))
        series, rows = columns_of(table, names, beside, **extra)
        points, tally, kept = np.empty((len(self.columns), rows)).T, Tally(rows), dict[str, Read]()
        axes, derived = {name: axis for axis, name in enumerate(self.columns)}, self.derived

        def place(name: str, read: Read) -> None:
            places, counts, errors = self.columns[name].placed(read)
            points[:, axes[name]] = places  # each column in one piece
            for row, found in errors.items():
                wrong.setdefault(row, found.at(row=row, column=name))
            for kind, count in counts.items():
                tally.add(name, kind, count)

        for name, column in self.inputs.items():
            try:
                read = column.read(series[name])
                if (size := len(read.numbers if read.codes is None else read.codes)) != rows:
                    problem = f"the column has {size} values, but the first has {rows}"
                    raise TableError(problem, "give every column a value for each row")
            except TableError as error:
                raise error.at(column=name) from None
            if any(name in one.sources for one in derived.values()):
                kept[name] = read.rows()
            if name in self.declared:
                place(name, read)
            else:
                for row, found in kept[name].bad.items():
                    wrong.setdefault(row, found.at(row=row, column=name))
        for name, one in derived.items():
            place(name, one.compute(kept, self.inputs))
        if stop and wrong:
            raise wrong[min(wrong)]
        bad = tuple(BadRow(row, wrong[row]) for row in sorted(wrong))
        tally.add_bad(one.error for one in bad)
        return EncodedBatch(points, bad, tally, objects_of(series[beside], beside, rows) if beside else None, unread)

    @cached_property
    def derived(self) -> Mapping[str, Derived]:
        """The columns that are computed from others, by name."""
        return {name: column for name, column in self.declared.items() if isinstance(column, Derived)}

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
        columns = {name: column.to_dict() for name, column in self.declared.items()}
        return {"headwater": FORMAT, **policy, **self.reading, "columns": columns}

    def with_bad_rows(self, policy: str | None) -> Schema:
        return _made(dict(self.declared), None if policy is None else check_policy(policy), self.reading)

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
        need(not unknown, f"unknown key {listed(unknown)}", f"known keys are {', '.join(sorted(FILE_KEYS))}")
        return _made(dict(self.declared), self.bad_rows, declared_options(declared))

    def for_releases(self) -> Schema:
        """The same schema for reading releases back: they are written in the usual way, however the data were."""
        written, columns = {*TEXT_KEYS, "format", "unit"}, {}
        for name, column in self.columns.items():
            declared = {key: value for key, value in column.to_dict().items() if key not in written}
            columns[name] = COLUMN_KINDS[declared.pop("kind")].from_dict(declared)
        return Schema(columns)

    @classmethod
    def from_dict(cls, declared: Mapping[str, Any]) -> Schema:
        """A schema as `to_dict` describes it.

        Parameters
        ----------
        declared
            The content of a schema file: the version of the format and a mapping of columns.
        """
        check_format(declared, {"headwater", "columns", "bad_rows", *TEXT_KEYS, *FILE_KEYS})
        policy, columns = declared.get("bad_rows"), declared.get("columns")
        known = policy is None or policy in POLICIES
        need(known, "bad_rows is none of the policies", f"write one of {', '.join(POLICIES)}")
        remedy = 'write a table for each, such as [columns.age] with kind = "integer"'
        need(isinstance(columns, Mapping) and bool(columns), "there are no columns", remedy)
        assert isinstance(columns, Mapping)  # noqa: S101 - for the type checker
        shared = {key: declared[key] for key in TEXT_KEYS if key in declared}
        found = {name: _column(name, table, shared) for name, table in columns.items()}
        return _made(found, policy, declared_options(declared))

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
        as_toml, found = _suffix(path) == ".toml", self.to_dict()
        text = tomli_w.dumps(found) if as_toml else json.dumps(found, indent=2, ensure_ascii=False) + "\n"
        Path(path).write_text(text, encoding="utf-8", newline="\n")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a schema cannot be changed: make another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a schema cannot be changed: make another one")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and list(self.declared.items()) == list(other.declared.items())

    def __hash__(self) -> int:
        return hash(tuple(self.declared.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (dict(self.declared), self.bad_rows, dict(self.reading))

    def __repr__(self) -> str:
        if all(name.isidentifier() for name in self.names):
            return f"Schema({', '.join(f'{name}={column!r}' for name, column in self.declared.items())})"
        return f"Schema({dict(self.declared)!r})"


def _made(columns: dict[str, Column | Derived], policy: str | None, reading: Mapping[str, Any]) -> Schema:
    schema = Schema(columns)
    object.__setattr__(schema, "bad_rows", policy)
    object.__setattr__(schema, "reading", MappingProxyType(dict(reading)))
    return schema


def _derived(name: str, declared: Derived, source: Column | Derived | None) -> Column:
    try:
        found = declared.column(source if isinstance(source, Column) else None)
        found.check()
    except SchemaError as error:
        raise error.at(column=name) from None
    return found


def schema_from_dict(declared: Any) -> Schema | UnitCube:  # noqa: ANN401 - whatever a file holds
    """The schema that a ``to_dict()`` describes, whichever kind it is.

    >>> schema_from_dict(UnitCube(2).to_dict())
    UnitCube(dimension=2)
    """
    if isinstance(declared, Mapping) and "unit_cube" in declared:
        check_format(declared, {"headwater", "unit_cube"})
        dimension = declared["unit_cube"]
        known = isinstance(dimension, int) and not isinstance(dimension, bool) and 1 <= dimension <= MOST_AXES
        remedy = "write for example unit_cube = 2"
        need(known, f"unit_cube must be a whole number from 1 to {MOST_AXES}", remedy)
        return UnitCube(dimension)
    return Schema.from_dict(declared)


@dataclass(frozen=True)
class InputSchema:
    """What readers of files are given where people have several records. Releases never have the person."""

    schema: Schema
    person: str

    def __post_init__(self) -> None:
        remedy = "declare a schema, such as Schema(x=Number(0, 1), y=Number(0, 1))"
        problem = "people are named by a column, and points of a cube have no columns"
        need(isinstance(self.schema, Schema), problem, remedy)
        problem = "the column that names the person is in the schema, so it would be published"
        remedy = "take it out of the schema: it is read beside it"
        need(self.person not in {*self.schema.inputs, *self.schema.names}, problem, remedy, self.person)

    @property
    def inputs(self) -> Mapping[str, Column]:
        """The columns that are read. That of the person is text of any kind: it is hashed, never encoded."""
        return {**self.schema.inputs, self.person: Category(null_values=self.nobody)}

    @property
    def nobody(self) -> list[str]:
        """The texts that mean "missing" in every column of the schema: they name nobody."""
        first, *others = (column.null_values for column in self.schema.columns.values())
        return [text for text in first if all(text in texts for texts in others)]

    @property
    def bad_rows(self) -> str | None:
        return self.schema.bad_rows

    @property
    def reading(self) -> Mapping[str, Any]:
        return self.schema.reading


# ---- what a file says


def check_format(declared: object, known: set[str]) -> None:
    """Refuse what is no schema of a format that is known, or has other keys than these."""
    problem, remedy = "a schema must be a table of keys and values", "write headwater = 1 and the columns"
    need(isinstance(declared, Mapping), problem, remedy)
    assert isinstance(declared, Mapping)  # noqa: S101 - for the type checker
    version = declared.get("headwater")
    is_version = isinstance(version, int) and not isinstance(version, bool) and version >= 1
    need(is_version, "the version of the format is missing", f"write headwater = {FORMAT} at the top")
    problem = f"the schema is written in format {version}, but this version of Headwater reads formats up to {FORMAT}"
    need(version == FORMAT, problem, "use a newer version of Headwater")
    unknown = [str(name) for name in declared if name not in known]
    need(not unknown, f"unknown key {listed(unknown)}", f"known keys are {', '.join(sorted(known))}")


def _column(name: str, declared: Any, shared: Mapping[str, Any]) -> Column | Derived:  # noqa: ANN401 - of a file
    try:
        remedy = f'write [columns.{quoted(name)}] and kind = "number" below it'
        need(isinstance(declared, Mapping), "a column must be a table", remedy)
        rest = dict(declared)
        kind = rest.pop("kind", "derived" if "from" in rest else None)
        what = "kind is missing" if kind is None else f"unknown kind {quoted(str(kind))}"
        kinds = (*COLUMN_KINDS, "derived")
        need(isinstance(kind, str) and kind in kinds, what, f"known kinds are {', '.join(kinds)}")
        if kind == "derived":
            return Derived.from_dict(rest)
        return COLUMN_KINDS[kind].from_dict(with_shared(COLUMN_KINDS[kind], rest, shared))
    except SchemaError as error:
        raise error.at(column=name) from None


def also_open(columns: Mapping[str, Column | Derived]) -> str:
    """What other columns leave open, in words that go on a sentence."""
    needing = dict[str, list[str]]()
    for name, column in columns.items():
        if found := " and ".join(getattr(column, "open", ())):
            needing.setdefault(found, []).append(name)
    return "".join(f"; {what} of {listed(names)} must be declared too" for what, names in needing.items())


def check_reading(key: str, value: Any) -> None:  # noqa: ANN401 - of a file, or an argument
    """Refuse what a key of `FILE_KEYS` cannot be; None says nothing."""
    if key == "encoding":
        encoding_of(value)
    elif key == "input_format":
        if value is not None and value not in FORMATS:
            raise ValueError(f"format must be one of {', '.join(FORMATS)}")
    elif key == "delimiter":
        plain = isinstance(value, str) and len(value) == 1 and value.isascii() and value not in '"\r\n\0'
        if value is not None and not plain:
            raise ValueError("delimiter must be one plain character, and neither a quote nor a line end")
    elif not isinstance(value, bool):
        raise ValueError(f"{key} must be true or false")


def encoding_of(name: object) -> str | None:
    """The name of an encoding as Python has it; None for UTF-8.

    >>> encoding_of("Latin-1"), encoding_of("utf8"), encoding_of("UTF-16")
    ('iso8859-1', None, 'utf-16')
    """
    if name is None:
        return None
    found = None
    if isinstance(name, str):
        try:
            found = codecs.lookup(name).name
            if found in ("utf-8", "utf-8-sig", "ascii"):
                return None
            one_each = found not in _ESCAPES and len(_BYTES.decode(found, "replace")) == len(_BYTES)
            if found in _WIDE or one_each:
                return found
        except (LookupError, UnicodeError, ValueError):
            pass
    raise ValueError("encoding must be utf-8, utf-16 or one with one byte a character, such as latin-1 or cp1252")


def declared_options(declared: Mapping[str, Any]) -> dict[str, Any]:
    """What is declared about files, of the keys in `FILE_KEYS`; what makes no sense is refused."""
    found = {key: declared[key] for key in FILE_KEYS if declared.get(key) is not None}
    for key, value in found.items():
        try:
            check_reading(key, value)
        except ValueError as error:
            raise SchemaError(str(error), f"write another {key}, or leave it out") from None
    return found


def read_as(schema: object, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `headwater.secret.read.fields.Options`: what is given, else what the schema declares about files."""
    declared = getattr(schema, "reading", {})
    found = {FILE_KEYS[key]: value for key, value in declared.items()}
    unsaid = (None, False)  # what is given so says nothing, but for what a caller turns off
    return found | {k: value for k, value in given.items() if k not in found or value not in unsaid or k == "multiline"}


def reading_of(schema: object, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a schema would declare to read files so: `read_as` backwards."""
    declared, found = getattr(schema, "reading", {}), {key: given.get(name) for key, name in FILE_KEYS.items()}
    return {key: value for key, value in found.items() if value or (value is False and key in declared)}


def with_shared(kind: type[Column], declared: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """What a column declares, with what is shared and it neither says itself nor contradicts.

    >>> with_shared(COLUMN_KINDS["number"], {"thousands": "."}, {"decimal": ",", "thousands": " "})
    {'decimal': ',', 'thousands': '.'}
    """
    known = {item.name for item in fields(kind)}
    added = {key: value for key, value in shared.items() if key in known and key not in declared}
    for key, other in (("decimal", "thousands"), ("thousands", "decimal")):
        if key in added and added[key] == declared.get(other):
            del added[key]
    if kind is Category and isinstance(added.get("null_values"), list | tuple):
        listed = declared.get("values")
        values = {str(value).strip() for value in listed} if isinstance(listed, list | tuple) else set()
        added["null_values"] = [text for text in added["null_values"] if str(text).strip() not in values]
    return added | dict(declared)


def read_schema_file(path: str | PathLike[str]) -> dict[str, Any]:
    """What is in a schema file, as plain values."""
    suffix = _suffix(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors put a mark at the start
    except UnicodeDecodeError:
        raise SchemaError("the file is not text in UTF-8", "save it as UTF-8") from None
    try:
        if suffix == ".toml":
            return tomllib.loads(text)
        found = json.loads(text, object_pairs_hook=_pairs)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise SchemaError(f"the file is not valid {suffix[1:].upper()}: {error}", "correct it at that place") from None
    except SchemaError:
        raise
    except ValueError:  # Python reads no number of more than some thousand digits
        raise SchemaError("the file holds a number that is far too long", "write bounds that can be") from None
    except RecursionError:
        raise SchemaError("the file is nested too deeply", "write it as Schema.save does") from None
    remedy = 'begin with {"headwater": 1, "columns": {…}}'
    need(isinstance(found, dict), "the file does not hold an object", remedy)
    return dict(found)


def _suffix(path: str | PathLike[str]) -> str:
    suffix = Path(path).suffix.lower()
    need(suffix in (".toml", ".json"), "a schema file must end in .toml or .json", "give it such a name")
    return suffix


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict[str, Any]()
    for name, value in pairs:
        need(name not in found, f"{listed([name])} is declared twice", "declare it once")
        found[name] = value
    return found
