"""Parquet and Arrow files: read by rows, checked as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from headwater.table.errors import TableError
from headwater.table.readers.arrow import arrow
from headwater.table.readers.layout import Layout
from headwater.table.readers.options import Options, changed
from headwater.table.readers.paths import Input, refused
from headwater.table.readers.stream import file_digest
from headwater.table.readers.text_file import Block, Place


class ColumnarFile:
    """One Parquet or Arrow file. A place is a row number and the SHA-256 of the whole file."""

    ended = True  # such a file is complete when it is there

    def __init__(self, source: Input, layout: Layout, options: Options, place: Place | None = None) -> None:
        if source.path is None:
            remedy = "write it to a file first, or pipe in CSV or JSON lines"
            raise TableError("Parquet and Arrow cannot be read from standard input", remedy, file=source.name)
        self._source, self._path, self._options = source, source.path, options
        self._seen = self._status()
        self.digest = self.digest_of(source)
        if place is not None and place["sha256"] != self.digest:
            raise changed(source.name, "changed")
        self._row = place["row"] if place else 0
        self._layout = layout
        self._file: Any = None
        try:
            self._file = arrow().OSFile(os.fspath(self._path))
            self._tables = self._parquet() if source.format == "parquet" else self._arrow()
        except OSError as error:
            raise refused(source.name, error) from None

    @staticmethod
    def digest_of(source: Input) -> str:
        """SHA-256 of the file as it lies there."""
        assert source.path is not None  # noqa: S101 - for the type checker: standard input was refused
        return file_digest(source.path, source.name)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def next(self, *, final: bool) -> tuple[Block, int] | None:
        """The next rows; None at the end."""
        pa = arrow()
        table, readable = None, True
        try:
            table = next(self._tables, None)
        except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError):
            readable = False  # the message may hold data
        self._check()
        if not readable:
            problem = f"the file cannot be read as {self._source.format.capitalize()}: it is of another kind or damaged"
            remedy = "check the format, and that the file was written to its end"
            raise TableError(problem, remedy, file=self._source.name)
        if table is None:
            return None
        start, digest = self._row, self.digest
        self._row += table.num_rows
        return Block(table, lambda row: {"row": start + row, "sha256": digest}, lambda row: None), 0

    def _parquet(self) -> Iterator[Any]:
        pa = arrow()
        file = arrow("parquet").ParquetFile(self._file)
        names = file.schema_arrow.names
        places = self._find(file.schema_arrow)
        group, skip = 0, self._row
        while group < file.num_row_groups and skip >= file.metadata.row_group(group).num_rows:
            skip -= file.metadata.row_group(group).num_rows
            group += 1
        groups = list(range(group, file.num_row_groups))
        wanted = [names[place] for place in places]
        for batch in file.iter_batches(self._options.batch_rows, row_groups=groups, columns=wanted) if groups else ():
            batch.validate(
                full=True
            )  # a damaged file may hold places outside of itself, where reading ends the process
            if skip < batch.num_rows:
                yield self._pick(pa.Table.from_batches([batch.slice(skip)]), wanted)
            skip = max(skip - batch.num_rows, 0)

    def _arrow(self) -> Iterator[Any]:
        pa = arrow()
        start = self._file.read(6)
        self._file.seek(0)
        opened = pa.ipc.open_file(self._file) if start == b"ARROW1" else pa.ipc.open_stream(self._file)
        places = self._find(opened.schema)
        in_file = start == b"ARROW1"
        batches = map(opened.get_batch, range(opened.num_record_batches)) if in_file else iter(opened)
        skip = self._row
        for batch in batches:
            batch.validate(full=True)
            if skip < batch.num_rows:
                yield self._rename(pa.Table.from_batches([batch.slice(skip)]).select(places))
            skip = max(skip - batch.num_rows, 0)

    def _find(self, schema: Any) -> list[int]:  # noqa: ANN401 - a pyarrow.Schema
        """Where the columns are, or an error."""
        try:
            places = self._layout.find(schema.names, self._options.ignore_extra)
        except TableError as error:
            raise error.at(file=self._source.name) from None
        for place, field in zip(places, self._layout.fields, strict=True):
            if arrow("types").is_nested(schema.field(place).type):
                remedy = "write plain values only"
                raise TableError("a column of nested values", remedy, file=self._source.name, column=field.name)
        return places

    def _pick(self, table: Any, wanted: list[str]) -> Any:  # noqa: ANN401
        return self._rename(table.select(wanted))

    def _rename(self, table: Any) -> Any:  # noqa: ANN401
        return table.rename_columns([field.name for field in self._layout.fields])

    def _status(self) -> os.stat_result:
        try:
            return os.stat(self._path)
        except OSError as error:
            raise refused(self._source.name, error) from None

    def _check(self) -> None:
        """Raise an error if the file is not the one that was opened, as far as its size and times tell."""
        try:
            now = os.stat(self._path)
        except OSError:
            raise changed(self._source.name, "was removed") from None
        was = self._seen
        if not os.path.samestat(now, was) or (now.st_size, now.st_mtime_ns) != (was.st_size, was.st_mtime_ns):
            raise changed(self._source.name, "changed")
