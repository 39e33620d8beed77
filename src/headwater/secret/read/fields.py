"""The columns that a file must have and the Arrow types they are read as: given by the schema, never by the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.arrow import from_numpy, pyarrow
from headwater.public.categorical import Category
from headwater.public.column import Column
from headwater.public.errors import LEAVE_OUT, UNDECLARED, TableError, listed
from headwater.public.input_schema import InputSchema
from headwater.public.numeric import Number
from headwater.public.text_options import written
from headwater.public.times import Datetime
from headwater.secret.read.headers import absent, twice

_NUMPY_TYPES = {"number": np.float64, "boolean": np.bool_}  # int64 for all other kinds


@dataclass(frozen=True)
class Field:
    """One column of the schema as a file has it."""

    name: str
    column: Column
    type: Any
    """The Arrow type of its values. Categories stay text: a code such as 007 is not the number 7."""

    @property
    def empty_is_text(self) -> bool:
        """Whether an empty field is the empty text, because the schema declares that as a value."""
        return isinstance(self.column, Category) and "" in self.column.values and not self.column.missing

    @property
    def null_values(self) -> tuple[str, ...]:
        """The texts that pyarrow may take for "missing" beside the empty one, which it does for text without quotes."""
        return () if self.empty_is_text else tuple(self.column.null_values)

    def without_nulls(self, text: Any) -> Any:  # noqa: ANN401 - a pyarrow.ChunkedArray
        """The text of a category without the texts that mean "missing": so the column need not know of them."""
        if not isinstance(self.column, Category) or not self.column.null_values:
            return text
        pa, pc = pyarrow(), pyarrow("compute")
        coded = text.dictionary_encode("encode").combine_chunks()
        nulls = self.column.null_values
        kept = [None if one is None or one.strip() in nulls else one for one in coded.dictionary.to_pylist()]
        return pa.chunked_array([pc.take(pa.array(kept, text.type), coded.indices)], text.type)

    def from_text(self, text: Any, line: Callable[[int], int]) -> Any:  # noqa: ANN401 - a pyarrow.ChunkedArray
        """Values from text by the grammar of the column (`Column.read_text`); an error has the ``line`` of its row."""
        if isinstance(self.column, Category):
            return text.cast(self.type)
        pa = pyarrow()
        coded = text.combine_chunks().dictionary_encode("encode")
        coded = coded if isinstance(coded, pa.DictionaryArray) else pa.concat_arrays(coded.chunks)
        codes = np.from_dlpack(coded.indices)
        try:
            numbers, missing = self.column.read_values(coded.dictionary.to_pylist())
        except TableError as error:
            row = int(np.argmax(codes == error.row))
            found = TableError(error.problem, error.remedy, sender=error.sender)
            raise found.at(line=line(row), column=self.name) from None
        raw: NDArray[Any] = numbers.astype(_NUMPY_TYPES.get(self.column.kind, np.int64))
        return from_numpy(raw[codes], None if missing is None else missing[codes]).cast(self.type)


@dataclass(frozen=True)
class Fields:
    """The columns of a schema, in its order. Without names (the unit cube) the columns of a file count by position."""

    fields: tuple[Field, ...]
    named: bool = True
    person: str | None = None
    """The column that names the person, if there is one: the schema does not name it."""

    @property
    def naming(self) -> Field | None:
        """The field of the column that names the person."""
        return next((field for field in self.fields if field.name == self.person), None) if self.person else None

    def empty(self) -> Any:  # noqa: ANN401 - a pyarrow.Table
        """A table without rows."""
        return pyarrow().table({field.name: pyarrow().array([], field.type) for field in self.fields})

    def first_wrong(self, table: Any) -> TableError | None:  # noqa: ANN401 - a pyarrow.Table
        """What is wrong with the values of the first row that is no record of the schema; None if all are."""
        wrong = dict[int, TableError]()
        for field in self.fields:
            if field.name != self.person:
                _, _, errors = field.column.encode_column(table[field.name], stop=True)
                for row, error in errors.items():
                    wrong.setdefault(row, error.at(row=row, column=field.name))
        return wrong[min(wrong)] if wrong else None

    def indices(self, header: Sequence[str], ignore_extra: bool, delimiter: str | None = None) -> list[int]:
        """Where in ``header`` the columns of the schema are, or an error.

        What stands in the place of names is data if the file has no header: it is shown only where it is sure that it
        has one.
        """
        if not self.named:
            if len(header) < len(self.fields) or (len(header) > len(self.fields) and not ignore_extra):
                problem = f"the file has {len(header)} column(s), but the schema has {len(self.fields)}"
                raise TableError(problem, "give a file with one column for each axis")
            return list(range(len(self.fields)))
        names = [field.name for field in self.fields]
        missing = [name for name in names if name not in header]
        if missing:
            raise absent(missing, names, header, delimiter, self.person)
        if any(header.count(name) > 1 for name in (names if ignore_extra else header)):
            raise twice(header)
        extra = [name for name in header if name not in names]
        if extra and not ignore_extra:
            problem = f"{len(extra)} column(s) that the schema does not name"
            raise TableError(problem, UNDECLARED, sender=LEAVE_OUT, shown=f": {listed(extra)}")
        return [header.index(name) for name in names]


def fields_of(schema: Any, text: Mapping[str, Any] | None = None) -> Fields:  # noqa: ANN401 - a Schema or a UnitCube
    """The fields of a schema; ``text`` is how the files are written, where the schema does not say it."""
    named = hasattr(schema, "columns")
    columns = schema.columns if named else {f"x{axis}": Number(0, 1) for axis in range(schema.dimension)}
    read = written(text or {}, columns)
    person = schema.person if isinstance(schema, InputSchema) else None
    return Fields(tuple(Field(name, column, _type(column)) for name, column in read.items()), named, person)


def _type(column: Column) -> Any:  # noqa: ANN401 - a pyarrow.DataType
    pa = pyarrow()
    if isinstance(column, Datetime):
        return pa.timestamp("us", "UTC" if column.zoned else None)
    types = {"number": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_(), "time-of-day": pa.time64("us")}
    return types.get(column.kind, pa.string())
