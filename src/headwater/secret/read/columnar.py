"""Parquet and Arrow files: read by rows, checked as a whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from headwater.public.errors import TableError
from headwater.public.tables import pyarrow
from headwater.public.tally import item_of, row_text
from headwater.secret.read.fields import Fields
from headwater.secret.read.options import Options, changed
from headwater.secret.read.paths import Input, refused
from headwater.secret.read.stream import file_digest
from headwater.secret.read.text_file import FilePosition, Part

_BYTES_OF_TEXT = (("is_string", "binary"), ("is_large_string", "large_binary"), ("is_string_view", "binary_view"))


def as_text(row: Any) -> str:  # noqa: ANN401 - a pyarrow.Table of one row
    """A row as JSON, for the quarantine."""
    return row_text({name: item_of(row[name], 0) for name in row.column_names})


def parquet_file(file: Any) -> Any:  # noqa: ANN401 - a path or a file of pyarrow; a pyarrow.parquet.ParquetFile
    """A Parquet file whose categories are read as such, however many values there are.

    A writer may have kept how wide their codes were in its memory. One more value in one record than fits such codes
    would refuse the whole file, although no code of that width is in it.
    """
    opened = pyarrow("parquet").ParquetFile(file)
    coded = [field.name for field in opened.schema_arrow if pyarrow("types").is_dictionary(field.type)]
    if not coded:
        return opened
    return pyarrow("parquet").ParquetFile(file, metadata=opened.metadata, read_dictionary=coded)


def _check_memory(column: Any) -> None:  # noqa: ANN401 - a pyarrow.Array
    """Raise Arrow's error if a damaged file holds offsets or indices that would end the process when used.

    Not if a value is none of its type, such as the hour 25 or text that is not UTF-8: that is a matter of its own row.
    """
    pa, types = pyarrow(), pyarrow("types")
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if types.is_dictionary(column.type):
        _check_memory(column.dictionary)
        column = pa.DictionaryArray.from_arrays(column.indices, pa.nulls(len(column.dictionary)), safe=False)
    for is_text, same in _BYTES_OF_TEXT:
        if getattr(types, is_text)(column.type):
            column = column.view(getattr(pa, same)())
    temporal, decimal = types.is_temporal(column.type), types.is_decimal(column.type)
    column.validate(full=not temporal and not decimal)


class ColumnarFile:
    """One Parquet or Arrow file. A position is a row number and the SHA-256 of the whole file."""

    ended = True  # such a file is complete when it is there
    idle = moved = grown = False
    linked = True

    def __init__(self, source: Input, fields: Fields, options: Options, position: FilePosition | None = None) -> None:
        if source.path is None:
            remedy = "write it to a file first, or pipe in CSV or JSON lines"
            raise TableError("Parquet and Arrow cannot be read from standard input", remedy, file=source.name)
        self._source, self._path, self._fields, self._options = source, source.path, fields, options
        self._seen = self._status()
        self.digest = self.digest_of(source)
        if position is not None and position["sha256"] != self.digest:
            raise changed(source.name, "changed")
        self._row = position["row"] if position else 0
        self._rest: Any = None  # rows that were read and not handed out yet
        self._file: Any = None
        try:
            self._file = pyarrow().OSFile(os.fspath(self._path))
            self._tables = self._parquet() if source.format == "parquet" else self._arrow()
        except OSError as error:
            raise refused(source.name, error) from None

    @staticmethod
    def digest_of(source: Input) -> str:
        """SHA-256 of the file as it lies there."""
        assert source.path is not None  # noqa: S101 - for the type checker: standard input was refused
        return file_digest(source.path, source.name)

    @property
    def inode(self) -> tuple[int, int]:
        """What identifies this file among all that are there."""
        return self._seen.st_dev, self._seen.st_ino

    @property
    def edges(self) -> tuple[int, bytes, bytes]:
        """How long the file is, its beginning and its end."""
        with open(self._path, "rb") as file:
            head = file.read(1 << 12)
            file.seek(max(self._seen.st_size - (1 << 12), 0))
            return self._seen.st_size, head, file.read(1 << 12)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def position(self) -> Callable[[], FilePosition]:
        """What gives the position behind the last part."""
        position = {"row": self._row, "sha256": self.digest}
        return lambda: position

    def next(self, limit: int, wait: float) -> Part | None:
        """At most ``limit`` of the next rows; None at the end."""
        self._check()
        while not self._rest:
            readable = True
            try:
                self._rest = next(self._tables, None)
            except (TableError, MemoryError):
                raise
            except Exception:  # of the library; the message may hold data
                readable = False
            self._check()
            if not readable:
                kind = self._source.format.capitalize()
                problem = f"the file cannot be read as {kind}: it is of another kind or damaged"
                remedy = "check the format, and that the file was written to its end"
                raise TableError(problem, remedy, file=self._source.name)
            if self._rest is None:
                return None
        table, self._rest = self._rest.slice(0, limit), self._rest.slice(limit)
        self._row += table.num_rows
        return Part(table, lambda row: None, table.num_rows, text=lambda row: as_text(table.slice(row, 1)))

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
        """Record batches as tables with the names of the schema, without the first ``skip`` rows."""
        names = [field.name for field in self._fields.fields]
        for batch in batches:
            for column in batch.columns:
                _check_memory(column)
            if skip < batch.num_rows:
                yield pyarrow().Table.from_batches([batch.slice(skip)]).rename_columns(names)
            skip = max(skip - batch.num_rows, 0)

    def _indices(self, schema: Any) -> list[int]:  # noqa: ANN401 - a pyarrow.Schema
        """Where the columns are, or an error."""
        try:
            indices = self._fields.indices(schema.names, self._options.ignore_extra)
        except TableError as error:
            raise error.at(file=self._source.name) from None
        for index, field in zip(indices, self._fields.fields, strict=True):
            if pyarrow("types").is_nested(schema.field(index).type):
                remedy = "write plain values only"
                raise TableError("a column of nested values", remedy, file=self._source.name, column=field.name)
        return indices

    def _status(self) -> os.stat_result:
        try:
            return os.stat(self._path)
        except OSError as error:
            raise refused(self._source.name, error) from None

    def _check(self) -> None:
        """Raise an error if the file is not the one that was opened, judged by its size and times."""
        try:
            now = os.stat(self._path)
        except OSError:
            raise changed(self._source.name, "was removed") from None
        was = self._seen
        if not os.path.samestat(now, was) or (now.st_size, now.st_mtime_ns) != (was.st_size, was.st_mtime_ns):
            raise changed(self._source.name, "changed")
