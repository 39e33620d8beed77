"""Which columns a file must have and which Arrow types they are read as: given by the schema, never by the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headwater.table.errors import TableError, listed
from headwater.table.readers.arrow import arrow

_CALLED = {
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "category": "one of the declared values",
    "datetime": "a date and time",
    "time-of-day": "a time of day",
}


@dataclass(frozen=True)
class Field:
    """One column of the schema as a file has it."""

    name: str
    kind: str
    types: tuple[Any, ...]
    """Arrow types to try in turn. The last may be text: then the codec understands it, or says what is wrong."""
    missing: bool = False
    """Whether values may be missing."""
    empty_is_text: bool = False
    """Whether an empty field is the empty text, because the schema declares that as a value."""

    @property
    def called(self) -> str:
        """What a value of this column is, in words."""
        return _CALLED[self.kind]


@dataclass(frozen=True)
class Layout:
    """The columns of a schema, in its order. Without names (the unit cube) the columns of a file count by place."""

    fields: tuple[Field, ...]
    named: bool = True

    def find(self, header: Sequence[str], ignore_extra: bool) -> list[int]:
        """Where in ``header`` the columns of the schema are, or an error.

        Names that are in the file but not in the schema are never shown: in a file without a header they are data.
        """
        no_header = "the first line must hold the column names, as the schema writes them"
        if not self.named:
            if len(header) < len(self.fields) or (len(header) > len(self.fields) and not ignore_extra):
                problem = f"the file has {len(header)} column(s), but the schema has {len(self.fields)}"
                raise TableError(problem, "give a file with one column for each axis")
            return list(range(len(self.fields)))
        names = [field.name for field in self.fields]
        twice = [name for name in names if header.count(name) > 1]
        if twice or (len(set(header)) < len(header) and not ignore_extra):
            which = f" ({listed(twice)})" if twice else ""
            raise TableError(f"two columns have the same name{which}", f"rename one of them; {no_header}")
        missing = [name for name in names if name not in header]
        if missing:
            raise TableError(f"missing column {listed(missing)}", f"add it to the file; {no_header}")
        extra = [str(place) for place, name in enumerate(header, 1) if name not in names]
        if extra and not ignore_extra:
            which = ", ".join(extra[:8]) + (f" and {len(extra) - 8} more" if len(extra) > 8 else "")
            problem = f"{len(extra)} extra column(s) that the schema does not name (counted from the left: {which})"
            raise TableError(problem, "add them to the schema, or read with ignore_extra (--ignore-extra)")
        return [header.index(name) for name in names]


def layout_of(schema: Any) -> Layout:  # noqa: ANN401 - a Schema or a UnitCube, which have no common class
    """The layout of a schema."""
    pa = arrow()
    columns = getattr(schema, "columns", None)
    if columns is None:
        axes = range(schema.dimension)
        return Layout(tuple(Field(f"x{axis}", "number", (pa.float64(),)) for axis in axes), named=False)
    return Layout(tuple(_field(name, column) for name, column in columns.items()))


def _field(name: str, column: Any) -> Field:  # noqa: ANN401 - a Column
    pa = arrow()
    text = pa.string()
    types: tuple[Any, ...]
    match column.kind:
        case "number":
            types = (pa.float64(), text)
        case "integer":
            types = (pa.int64(), text)
        case "boolean":
            types = (pa.bool_(), text)
        case "datetime":
            types = (pa.timestamp("us", "UTC" if column.zoned else None), text)
        case "time-of-day":
            types = (pa.time64("us"), text)
        case _:  # a code such as 007 is not the number 7: labels are read as text, whatever they are
            types = (pa.dictionary(pa.int32(), text), text)
    empty_is_text = column.kind == "category" and "" in column.values and not column.missing
    return Field(name, column.kind, types, column.missing, empty_is_text)
