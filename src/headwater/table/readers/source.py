"""All files of a run, one after another, as batches of records; each batch knows how to go on after it."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property
from typing import Any, Self

from headwater.partition import Points
from headwater.table.arrow import pyarrow
from headwater.table.errors import TableError
from headwater.table.readers.columnar import ColumnarFile
from headwater.table.readers.fields import fields_of
from headwater.table.readers.options import InputChangedError, Options, changed
from headwater.table.readers.paths import Input, Inputs, StrPath
from headwater.table.readers.positions import check_file_position, check_position
from headwater.table.readers.text_file import FilePosition, Part, TextFile

Position = dict[str, Any]
"""Everything up to here has been read: a JSON object, of use to `open_source` only."""


_FIRST_BATCH = 64  # records; so a slow pipe is looked at soon, and a fast one reaches full batches after a few
_MOST_VALUES = 1 << 21  # of a batch: how many columns there are is public


class Batch:
    """Some records, and the position behind them.

    Parameters
    ----------
    table
        A ``pyarrow.Table`` with the columns of the schema.
    file
        Where the records come from.
    position
        What gives the position behind the records.
    parts
        The parts of the table as they were read: they know their lines.
    """

    def __init__(self, table: Any, file: str, position: Callable[[], Position], parts: list[Part]) -> None:  # noqa: ANN401
        self.table, self.file = table, file
        self._position, self._parts = position, parts

    @cached_property
    def position(self) -> Position:
        """Everything up to the end of this batch has been read."""
        return self._position()

    def with_line(self, error: TableError) -> TableError:
        """An error of this batch (from `schema.encode`) with the file and the line filled in."""
        row, line = error.row, None
        for part in self._parts:
            if row is not None and row < part.table.num_rows:
                line = part.line(row)
                break
            row = None if row is None else row - part.table.num_rows
        return error.at(file=self.file, line=line)


class Source:
    r"""Files as an iterator of batches. With ``follow`` it never ends. It gives None after a poll that found nothing.

    Formal guarantees
    -----------------
    A batch ends after a number of records that depends on public facts only (options, number of columns, how many
    records there are in each file), or when a pipe or a followed file is idle. The text of a record decides nothing but
    the record (``proofs/tables.md``).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = path.write_text("x\n0.25\n0.5\n")
    >>> from headwater.table.unit_cube import unit_cube
    >>> with open_source(path, unit_cube(1)) as source:
    ...     first = next(source)
    >>> _ = path.write_text("x\n0.25\n0.5\n0.75\n")  # more records arrive; the earlier ones are as they were
    >>> with open_source(path, unit_cube(1), first.position) as source:
    ...     [batch.table["x0"].to_pylist() for batch in source]
    [[0.75]]
    """

    def __init__(
        self,
        paths: StrPath | Sequence[StrPath],
        schema: Any,  # noqa: ANN401 - a Schema or a UnitCube
        position: Position | None,
        options: Options,
    ) -> None:
        self._fields, self._options = fields_of(schema, options.text), options
        self._most = max(1, min(options.batch_rows, _MOST_VALUES // len(self._fields.fields)))
        self._size = min(_FIRST_BATCH, self._most)
        self._inputs = Inputs(paths, options)
        self._piped = any(source.path is None for source in self._inputs.found)
        self._finished: list[str] = []
        self._sizes: list[tuple[Input, int]] = []
        self._records = 0
        self._reader: TextFile | ColumnarFile | None = None
        self._batches = self._run(self._resume(position) if position is not None else None)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch | None:
        return next(self._batches)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file that is being read."""
        self._batches.close()
        if self._reader is not None:
            self._reader.close()

    # ---- inside

    def _resume(self, position: Position) -> FilePosition:
        """Check the files that an earlier run has read to their ends, and say where in the next one it stopped."""
        check_position(position, self._inputs.found[0].name if self._inputs.found else "the input")
        for number, known in enumerate(position["finished"]):
            if number >= len(self._inputs.found):
                raise self._gone(position["name"])
            source = self._inputs.found[number]
            if _mark(source, self._digest(source)) != known:
                raise changed(source.name, "changed, or another file stands in its place,")
            self._note(source)
        self._finished = list(position["finished"])
        self._records = position["records"]
        found = self._inputs.found[len(self._finished) :]
        if not found:
            raise self._gone(position["name"])
        if found[0].key != position["name"]:
            name = found[0].name
            problem = f"another file stands where {position['name']} was read before"
            raise InputChangedError(problem, "give the same files in the same order, or start a new run", file=name)
        in_file: FilePosition = position["place"]
        return in_file

    def _gone(self, name: str) -> InputChangedError:
        where = self._inputs.found[-1].name if self._inputs.found else "the input"
        return InputChangedError(f"the file {name}, which was read before, is gone", "put it back", file=where)

    def _digest(self, source: Input) -> str:
        """SHA-256 of a file that was read to its end."""
        if source.format in ("parquet", "arrow"):
            return ColumnarFile.digest_of(source)
        reader = TextFile(source, self._fields, self._options)
        try:
            return reader.digest_to_end()
        finally:
            reader.close()

    def _open(self, source: Input, position: FilePosition | None) -> TextFile | ColumnarFile:
        if position is not None:
            check_file_position(position, source)
        kind = ColumnarFile if source.format in ("parquet", "arrow") else TextFile
        return kind(source, self._fields, self._options, position)

    def _run(self, position: FilePosition | None) -> Generator[Batch | None]:
        while True:
            if len(self._finished) < len(self._inputs.found):
                source = self._inputs.found[len(self._finished)]
                self._reader = self._open(source, position)
                position = None
                yield from self._read(source, self._reader)
                self._reader.close()
                self._finished.append(_mark(source, self._reader.digest))
                self._note(source)
            elif self._options.follow and not self._piped:
                time.sleep(self._options.poll_seconds)
                self._look_again()
                yield None
            else:
                return

    def _read(self, source: Input, reader: TextFile | ColumnarFile) -> Iterator[Batch | None]:
        """One file to its end. If it is the last of a followed run, the end is where the next file begins."""
        while True:
            last = len(self._finished) + 1 == len(self._inputs.found)
            complete = source.path is not None and not (self._options.follow and last)
            batch, more = self._batch(source, reader, 0 if complete else self._options.poll_seconds)
            if batch is not None:
                yield batch
            elif not more:
                return
            else:
                yield None
            if reader.idle and source.path is not None:
                self._look_again()

    def _batch(self, source: Input, reader: TextFile | ColumnarFile, wait: float) -> tuple[Batch | None, bool]:
        """The next batch, and whether there may be more of this file."""
        limit = self._size if wait else self._most
        parts: list[Part] = []
        rows, begun = 0, time.monotonic()
        while rows < limit:
            part = reader.next(limit - rows, wait)
            if part is not None:
                parts.append(part)
                rows += part.table.num_rows
            if part is None or reader.idle:
                break
        else:
            took = (time.monotonic() - begun) / self._options.poll_seconds
            if took > 1 / 2:
                self._size = max(1, self._size // 2)
            elif took < 1 / 16:
                self._size = min(2 * self._size, self._most)
        if not parts:
            return None, reader.idle
        self._records += rows
        known = {"records": self._records, "finished": list(self._finished), "name": source.key}
        in_file = reader.position()
        table = parts[0].table if len(parts) == 1 else pyarrow().concat_tables(part.table for part in parts)
        return Batch(table, source.name, lambda: {**known, "place": in_file()}, parts), True

    def _look_again(self) -> None:
        """Look for new files and for old ones that changed."""
        self._inputs.look_again()
        for source, size in self._sizes:
            if source.path is not None and source.path.stat().st_size != size:
                raise changed(source.name, "changed, and files after it were read,")

    def _note(self, source: Input) -> None:
        if self._options.follow and source.path is not None:
            self._sizes.append((source, os.stat(source.path).st_size))


def open_source(
    paths: StrPath | Sequence[StrPath],
    schema: Any,  # noqa: ANN401 - a Schema or a UnitCube
    position: Position | None = None,
    **options: Any,  # noqa: ANN401 - the fields of Options
) -> Source:
    """Open files of records, from the start or from an earlier ``position``. Keywords are the fields of `Options`."""
    return Source(paths, schema, position, Options(**options))


def read(paths: StrPath | Sequence[StrPath], schema: Any, **options: Any) -> Iterator[Any]:  # noqa: ANN401
    r"""Read files of records, in order, as ``pyarrow.Table`` objects that `schema.encode` takes.

    Parameters
    ----------
    paths
        Files (CSV, JSON lines, Parquet, Arrow; text may be compressed), folders, or ``"-"`` for standard input.
    schema
        Says which columns there must be, and their types. Nothing is learned from the file.
    options
        The fields of `Options`, such as ``format``, ``delimiter``, ``ignore_extra``, ``batch_rows``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = path.write_text("x,y\n0.25,1\n0.5,0\n")
    >>> from headwater.table.unit_cube import unit_cube
    >>> [table.num_rows for table in read(path, unit_cube(2))]
    [2]
    """
    with open_source(paths, schema, **options) as source:
        for batch in source:
            if batch is not None:
                yield batch.table


def read_points(paths: StrPath | Sequence[StrPath], schema: Any, **options: Any) -> Iterator[Points]:  # noqa: ANN401
    """The same as `read`, encoded; errors name file and line."""
    with open_source(paths, schema, **options) as source:
        for batch in source:
            if batch is not None:
                try:
                    yield schema.encode(batch.table)
                except TableError as error:
                    raise batch.with_line(error) from None


def _mark(source: Input, digest: str) -> str:
    """A short mark of a file that was read to its end: positions stay small when there are thousands of files."""
    return hashlib.sha256(f"{source.key}\n{digest}".encode()).hexdigest()[:16]
