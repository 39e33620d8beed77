"""Parquet and Arrow files: read by rows, checked as a whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

from headwater.public.errors import TableError
from headwater.public.tables import pyarrow
from headwater.public.tally import item_of, row_text
from headwater.secret.read.batch import Part
from headwater.secret.read.fields import Fields
from headwater.secret.read.lines import Input, changed, refused, seal_of
from headwater.secret.read.options import Options

_BYTES_OF_TEXT = (("is_string", "binary"), ("is_large_string", "large_binary"), ("is_string_view", "binary_view"))


def as_text(row: Any) -> str:  # noqa: ANN401 - a pyarrow.Table of one row
    return row_text({name: item_of(row[name], 0) for name in row.column_names})


def parquet_file(file: Any) -> Any:  # noqa: ANN401 - a path or a file of pyarrow; a pyarrow.parquet.ParquetFile
    opened = pyarrow("parquet").ParquetFile(file)
    # A writer may have kept how wide their codes were in its memory: one more value would refuse the whole file.
    coded = [field.name for field in opened.schema_arrow if pyarrow("types").is_dictionary(field.type)]
    if not coded:
        return opened
    return pyarrow("parquet").ParquetFile(file, metadata=opened.metadata, read_dictionary=coded)


def _check_memory(column: Any) -> None:  # noqa: ANN401 - a pyarrow.Array
    """Raise Arrow's error if a damaged file holds offsets or indices that would end the process when used."""
    pa, types = pyarrow(), pyarrow("types")
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if types.is_dictionary(column.type):
        _check_memory(column.dictionary)
        column = pa.DictionaryArray.from_arrays(column.indices, pa.nulls(len(column.dictionary)), safe=False)
    for is_text, same in _BYTES_OF_TEXT:
        if getattr(types, is_text)(column.type):
            column = column.view(getattr(pa, same)())
    column.validate(full=not types.is_temporal(column.type) and not types.is_decimal(column.type))


class ColumnarFile:
    """One Parquet or Arrow file."""

    ended, idle, unfinished = True, False, 0  # such a file is complete when it is there

    def __init__(self, source: Input, fields: Fields, options: Options, place: dict[str, Any] | None = None) -> None:
        if source.path is None and source.data is None:
            remedy = "write it to a file first, or pipe in CSV or JSON lines"
            raise TableError("Parquet and Arrow cannot be read from standard input", remedy, file=source.name)
        self.source, self._fields, self._options = source, fields, options
        self._at_first, self._sha256 = self.seal, self._digest()
        if place is not None and place["sha256"] != self._sha256:
            raise changed(source.name, "changed")
        self._row = place["row"] if place else 0
        self._rest: Any = None  # rows that were read and not handed out yet
        try:
            held = source.data is not None
            self._file = pyarrow().BufferReader(source.data) if held else pyarrow().OSFile(os.fspath(source.path or ""))
        except OSError as error:
            raise refused(source.name, error) from None
        self._tables = self._parquet() if source.format == "parquet" else self._arrow()

    def _digest(self) -> str:
        if self.source.path is None:
            return ""
        with open(self.source.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def seal(self) -> str:
        try:
            return seal_of(self.source.path, self.source.name) if self.source.path else ""
        except TableError:
            if getattr(self, "_at_first", None) is None:
                raise
            raise changed(self.source.name, "was removed") from None

    @property
    def place(self) -> dict[str, Any]:
        return {"row": self._row, "sha256": self._sha256}

    def close(self) -> None:
        self._file.close()

    def next(self, limit: int, wait: float) -> Part | None:
        """At most ``limit`` of the next rows; None at the end."""
        readable = True
        while not self._rest:
            try:
                self._rest = next(self._tables, None)
            except (TableError, MemoryError):
                raise
            except Exception:  # of the library; the message may hold data
                readable = False
            if self.seal != self._at_first:
                raise changed(self.source.name, "changed")
            if not readable:
                kind = self.source.format.capitalize()
                problem = f"the file cannot be read as {kind}: it is of another kind or damaged"
                raise TableError(problem, "check that it was written to its end", file=self.source.name)
            if self._rest is None:
                return None
        table, self._rest = self._rest.slice(0, limit), self._rest.slice(limit)
        self._row += table.num_rows
        return Part(table, table.num_rows, text=lambda row: as_text(table.slice(row, 1)))

    def _parquet(self) -> Iterator[Any]:
        file = parquet_file(self._file)
        indices = self._indices(file.schema_arrow)
        group, skip = 0, self._row
        while group < file.num_row_groups and skip >= file.metadata.row_group(group).num_rows:
            skip -= file.metadata.row_group(group).num_rows
            group += 1
        wanted = [file.schema_arrow.names[index] for index in indices]
        rows, groups = self._options.batch_rows, list(range(group, file.num_row_groups))
        batches = file.iter_batches(rows, row_groups=groups, columns=wanted) if groups else iter(())
        yield from self._selected((batch.select(wanted) for batch in batches), skip)

    def _arrow(self) -> Iterator[Any]:
        pa = pyarrow()
        start = self._file.read(6)
        self._file.seek(0)
        in_file = start == b"ARROW1"
        opened = pa.ipc.open_file(self._file) if in_file else pa.ipc.open_stream(self._file)
        indices = self._indices(opened.schema)
        batches = map(opened.get_batch, range(opened.num_record_batches)) if in_file else iter(opened)
        yield from self._selected((batch.select(indices) for batch in batches), self._row)

    def _selected(self, batches: Iterator[Any], skip: int) -> Iterator[Any]:
        for batch in batches:
            for column in batch.columns:
                _check_memory(column)
            if skip < batch.num_rows:
                yield pyarrow().Table.from_batches([batch.slice(skip)]).rename_columns(list(self._fields.columns))
            skip = max(skip - batch.num_rows, 0)

    def _indices(self, schema: Any) -> list[int]:  # noqa: ANN401 - a pyarrow.Schema
        """Where the columns are, or an error."""
        try:
            indices = self._fields.indices(schema.names)
        except TableError as error:
            raise error.at(file=self.source.name) from None
        for index, name in zip(indices, self._fields.columns, strict=True):
            if pyarrow("types").is_nested(schema.field(index).type):
                remedy = "write plain values only"
                raise TableError("a column of nested values", remedy, file=self.source.name, column=name)
        return indices
