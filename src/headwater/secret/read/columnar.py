"""Parquet and Arrow files: read by rows, checked as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from headwater.public.errors import TableError
from headwater.public.tables import pyarrow
from headwater.public.tally import item_of, row_text
from headwater.secret.read.batch import Batch
from headwater.secret.read.fields import Fields, Options
from headwater.secret.read.lines import Input, changed, refused, seal_of

_BYTES_OF_TEXT = (("is_string", "binary"), ("is_large_string", "large_binary"), ("is_string_view", "binary_view"))


def parquet_file(file: Any) -> Any:  # noqa: ANN401 - a path or a file of pyarrow; a pyarrow.parquet.ParquetFile
    opened = pyarrow("parquet").ParquetFile(file)
    # A writer may have kept how wide their codes were in its memory: one more value would refuse the whole file.
    coded = [field.name for field in opened.schema_arrow if pyarrow("types").is_dictionary(field.type)]
    if not coded:
        return opened
    return pyarrow("parquet").ParquetFile(file, metadata=opened.metadata, read_dictionary=coded)


class ColumnarFile:
    """The records of one Parquet or Arrow file, from its start or from where an earlier run stopped."""

    idle = False  # such a file is complete when it is there

    def __init__(self, source: Input, fields: Fields, options: Options, place: dict[str, Any] | None = None) -> None:
        if source.path is None and source.data is None:
            remedy = "write it to a file first, or pipe in CSV or JSON lines"
            raise TableError("Parquet and Arrow cannot be read from standard input", remedy, file=source.name)
        self.source, self._fields, self._options = source, fields, options
        self._rest, self._ahead = list[Any](), 0  # tables that were read and not taken yet, and their rows
        try:
            self._sha256 = ""
            if source.path is not None:
                with open(source.path, "rb") as whole:
                    self._sha256 = hashlib.file_digest(whole, "sha256").hexdigest()
            memory = source.data is not None
            self._file = pyarrow().BufferReader(source.data) if memory else pyarrow().OSFile(str(source.path))
        except OSError as error:
            raise refused(source.name, error) from None
        if place is not None and place["sha256"] != self._sha256:
            raise changed(source.name, "changed")
        self._row, self._at_first = place["row"] if place else 0, self._seal()
        self._tables = self._parquet() if source.format == "parquet" else self._arrow()

    @property
    def place(self) -> dict[str, Any]:
        """Where reading stopped, as a JSON object."""
        return {"row": self._row, "sha256": self._sha256}

    def _seal(self) -> str:
        return seal_of(self.source) if self.source.path else ""

    def seal(self) -> str:
        """The seal of the file, which must be as it was."""
        try:
            if self._seal() == self._at_first:
                return self._at_first
        except TableError:
            raise changed(self.source.name, "was removed") from None
        raise changed(self.source.name, "changed")

    def close(self) -> None:
        self._file.close()

    def ahead(self, records: int, wait: float) -> int:
        """Read ahead so many rows, and say how many there are: fewer at the end."""
        while self._ahead < records:
            readable, table = True, None
            try:
                table = next(self._tables, None)
            except (TableError, MemoryError):
                raise
            except Exception:  # of the library; the message may hold data
                readable = False
            self.seal()
            if not readable:
                kind = self.source.format.capitalize()
                problem = f"the file cannot be read as {kind}: it is of another kind or damaged"
                raise TableError(problem, "check that it was written to its end", file=self.source.name)
            if table is None:
                break
            self._rest.append(table)
            self._ahead += table.num_rows
        return min(self._ahead, records)

    def take(self, records: int) -> Batch:
        """The next rows, which have been read ahead."""
        table = pyarrow().concat_tables(self._rest)
        self._rest, table = [table.slice(records)], table.slice(0, records)
        self._row += records
        self._ahead -= records

        def text(row: int) -> str:
            one = table.slice(row, 1)
            return row_text({name: item_of(one[name], 0) for name in one.column_names})

        return Batch(table, records, text=text, file=self.source.name)

    def _parquet(self) -> Iterator[Any]:
        file = parquet_file(self._file)
        wanted = [file.schema_arrow.names[index] for index in self._indices(file.schema_arrow)]
        group, skip = 0, self._row
        while group < file.num_row_groups and skip >= file.metadata.row_group(group).num_rows:
            skip -= file.metadata.row_group(group).num_rows
            group += 1
        groups = list(range(group, file.num_row_groups))
        batches = file.iter_batches(self._options.batch_rows, row_groups=groups, columns=wanted) if groups else iter(())
        yield from self._checked((batch.select(wanted) for batch in batches), skip)

    def _arrow(self) -> Iterator[Any]:
        pa = pyarrow()
        in_file = self._file.read(6) == b"ARROW1"
        self._file.seek(0)
        opened = pa.ipc.open_file(self._file) if in_file else pa.ipc.open_stream(self._file)
        indices = self._indices(opened.schema)
        batches = map(opened.get_batch, range(opened.num_record_batches)) if in_file else iter(opened)
        yield from self._checked((batch.select(indices) for batch in batches), self._row)

    def _checked(self, batches: Iterator[Any], skip: int) -> Iterator[Any]:
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
