"""All files of a run, one after another, as batches of records; each batch knows how to go on behind it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Self

from headwater.public.errors import TableError
from headwater.public.partition import Points
from headwater.public.schema import read_as
from headwater.public.tables import pyarrow
from headwater.public.tally import with_way_out
from headwater.secret.read.batch import Batch, Part, Position
from headwater.secret.read.columnar import ColumnarFile
from headwater.secret.read.csv_lines import UncertainError
from headwater.secret.read.fields import Fields, fields_of
from headwater.secret.read.files import Files, Paths, StrPath, plain_name
from headwater.secret.read.lines import Input, InputChangedError, Pipe, open_raw
from headwater.secret.read.options import Options
from headwater.secret.read.text import TextFile

Reader = TextFile | ColumnarFile

_FIRST_BATCH = 64  # records; so a slow pipe is looked at soon, and a fast one reaches full batches after a few
_MOST_VALUES = 1 << 21  # of a batch: how many columns there are is public


class Source:
    r"""Files as an iterator of batches. With ``follow`` it never ends. It gives None after a poll that found nothing.

    Formal guarantees
    -----------------
    A batch ends after a number of records that depends on public facts only (options, number of columns, how many
    records there are in each file), or when a pipe or a followed file is idle or stopped. The text of a record decides
    nothing but the record (``proofs/tables.md``).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = path.write_text("x\n0.25\n0.5\n")
    >>> from headwater.public.cube import unit_cube
    >>> with open_source(path, unit_cube(1)) as source:
    ...     first = next(source)
    >>> _ = path.write_text("x\n0.25\n0.5\n0.75\n")  # more records arrive; the earlier ones are as they were
    >>> with open_source(path, unit_cube(1), first.position) as source:
    ...     [batch.table["x0"].to_pylist() for batch in source]
    [['0.75']]
    """

    def __init__(
        self,
        paths: Paths,
        schema: Any,  # noqa: ANN401 - a Schema or a UnitCube
        position: Position | None,
        options: Options,
    ) -> None:
        pyarrow()
        self._schema, self._options = schema, options
        self._fields: Fields = fields_of(schema, options.ignore_extra)
        self._most = max(1, min(options.batch_rows, _MOST_VALUES // len(self._fields.columns)))
        self._size = min(_FIRST_BATCH, self._most)
        self._files = Files(paths, options)
        self._records = 0
        self._reader: Reader | None = None
        self._kept: Position | None = position
        self.pending: Position | None = None
        """A position that no batch has, because no records came with it."""
        self.stopped = False
        """Whether `stop` was called."""
        if position is not None:
            self._resume(position)
        elif not self._files.look() and not options.follow:
            raise TableError("no files in this folder", "name a folder with files", file=self._files.given)
        self._batches = self._run()

    @property
    def complete(self) -> bool:
        """Whether it ends by itself and reading never waits for a writer: all of it is files, and none is followed."""
        return not self._options.follow and self._files.whole

    @property
    def piped(self) -> bool:
        """Whether it reads standard input, where what was read and not taken is gone."""
        return self._files.piped

    @property
    def unfinished(self) -> int:
        """How many bytes were read of a record that has not ended."""
        return self._reader.unfinished if self._reader else 0

    def stop(self) -> None:
        """Take no more out of a pipe, and end after the records that were read. A signal handler may call it."""
        self.stopped = True
        if isinstance(self._reader, TextFile) and isinstance(self._reader.raw, Pipe):
            self._reader.raw.stopped = True

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

    def _resume(self, position: Position) -> None:
        """Open the file that an earlier run was reading, at the place where it stopped."""
        files = self._files
        try:
            self._records, name, place, done = (position[key] for key in ("records", "name", "place", "done"))
            files.finished = {key: list(seals) for key, seals in position["finished"].items()}
            files.current, files.beside = name, dict(position["beside"])
        except (KeyError, TypeError, AttributeError):
            problem = "what was kept of an earlier run does not say where in the input it stopped"
            raise TableError(problem, "put back the state as it was", file="the input") from None
        found = files.look()
        if not name:
            return
        same = [one for one in found if one.key == name] or [
            one for one in found if "row" not in place and one.path and plain_name(one.key) == plain_name(name)
        ]
        wrong: TableError | None = None
        for source in same:
            try:
                self._reader = self._open(source, place)
            except InputChangedError as error:
                wrong = wrong or error
            else:
                files.current = source.key
                return
        if wrong is not None:
            raise wrong
        if not done or files.piped:
            problem = f"{name} is gone, which was being read"
            raise InputChangedError(problem, "put it back under its name", file=files.given)
        files.finished.setdefault(name, []).append(done)
        files.current = ""
        self.pending = self._position()

    def _open(self, source: Input, place: dict[str, Any] | None = None) -> Reader:
        if source.format in ("parquet", "arrow"):
            return ColumnarFile(source, self._fields, self._options, place)
        raw = open_raw(source, self._files.look_beside)
        try:
            return TextFile(source, self._fields, self._options, raw, place)
        except BaseException:
            raw.close()
            raise

    def _run(self) -> Generator[Batch | None]:
        while True:
            if self._reader is None:
                found = self._files.look()
                if not found:
                    if not self._options.follow or self._files.piped:
                        return
                    time.sleep(self._options.poll_seconds)
                    yield None
                    continue
                self._files.begin(found[0])
                self._reader = self._open(found[0])
            yield from self._read(self._reader)
            if not self._finish(self._reader):
                return

    def _others_than(self, reader: Reader, seal: str = "") -> bool:
        return any(one.name != reader.source.name for one in self._files.look(seal))

    def _read(self, reader: Reader) -> Generator[Batch | None]:
        """One file to its end."""
        growing = self._options.follow and isinstance(reader, TextFile) and reader.source.compression is None
        growing = growing and reader.source.path is not None
        if self.stopped:
            self.stop()  # it was called before there was a reader
        others = not growing or self._others_than(reader)
        while True:
            waits = self._files.piped or not others
            batch, more = self._batch(reader, self._options.poll_seconds if waits else 0)
            if batch is not None:
                self._kept, self.pending = batch.position, None
                yield batch
            elif not more or self.stopped:
                return
            else:
                self._keep(self._position())
                yield None
                self.pending = None
            if reader.idle and growing:
                others = others or self._others_than(reader)

    def _keep(self, position: Position) -> None:
        if position != self._kept and not self._files.piped:
            self.pending = self._kept = position

    def _batch(self, reader: Reader, wait: float) -> tuple[Batch | None, bool]:
        """The next batch, and whether there may be more of this file."""
        limit = self._size if wait else self._most
        parts: list[Part] = []
        rows, begun = 0, time.monotonic()
        while True:
            end = min(_next_end(rows), limit) if self._files.piped else limit
            part = reader.next(end - rows, wait)
            if part is not None:
                parts.append(part)
                rows += part.records
            if part is None or reader.idle or any(isinstance(bad.error, UncertainError) for bad in part.bad):
                break
            took = (time.monotonic() - begun) / self._options.poll_seconds
            if rows < end or (rows < limit and took < 1):
                continue
            if took > 1 / 2:
                self._size = max(1, self._size // 2)
            elif took < 1 / 16:
                self._size = min(2 * self._size, self._most)
            break
        if not parts:
            return None, reader.idle
        self._records += rows
        batch = Batch(_joined([part.table for part in parts]), reader.source.name, self._position(), parts)
        self._refuse_bad(batch)
        return batch, True

    def _refuse_bad(self, batch: Batch) -> None:
        """Raise the error of the first record of a batch that stops the run."""
        stops = self._options.bad_rows == "stop"
        wrong = next((bad for bad in batch.bad if stops or isinstance(bad.error, UncertainError)), None)
        if wrong is None:
            return
        if stops and wrong.row:  # what came before it is not checked otherwise
            before = batch.table.slice(0, wrong.row)
            schema = getattr(self._schema, "schema", self._schema)
            try:
                schema.encode(before.select(list(schema.names)) if hasattr(schema, "names") else before)
            except TableError as error:
                raise batch.with_line(error) from None
        raise wrong.error if isinstance(wrong.error, UncertainError) else with_way_out(wrong.error)

    def _position(self, done: str = "") -> Position:
        files = self._files
        known: Position = {"records": self._records, "name": files.current, "done": done, "place": {}}
        known |= {"finished": {name: list(seals) for name, seals in files.finished.items()}}
        known |= {"beside": dict(files.beside)}
        if self._reader is None or not files.current:
            return known
        return known | {"place": self._reader.place}

    def _finish(self, reader: Reader) -> bool:
        """Seal a file that was read to its end, unless it may grow; whether others may come."""
        source = reader.source
        if source.path is None or self.stopped:
            return False
        seal = reader.raw.seal if isinstance(reader, TextFile) else reader.seal
        whole = source.compression is not None or isinstance(reader, ColumnarFile)
        if not self._options.follow and not whole and not self._others_than(reader, seal):
            self._keep(self._position(done=seal))
            return False
        reader.close()
        self._files.finish(source, seal)
        self._reader = None
        self._keep(self._position())
        return True


def _next_end(rows: int) -> int:
    return _FIRST_BATCH << (rows // _FIRST_BATCH).bit_length()


def _joined(tables: list[Any]) -> Any:  # noqa: ANN401 - of pyarrow
    """One table after another."""
    if len(tables) == 1:
        return tables[0]
    first = tables[0].schema
    if all(table.schema.equals(first) for table in tables):
        return pyarrow().concat_tables(tables)
    text = [name for name in first.names if len({str(table.schema.field(name).type) for table in tables}) > 1]
    kinds = [field.with_type(pyarrow().string()) if field.name in text else field for field in first]
    return pyarrow().concat_tables([table.cast(pyarrow().schema(kinds)) for table in tables])


def open_source(
    paths: Paths,
    schema: Any,  # noqa: ANN401 - a Schema or a UnitCube
    position: Position | None = None,
    **options: Any,  # noqa: ANN401 - the fields of Options
) -> Source:
    return Source(paths, schema, position, Options(**read_as(schema, options)))


def read(paths: StrPath | Sequence[StrPath], schema: Any, **options: Any) -> Iterator[Any]:  # noqa: ANN401
    r"""Read files of records, in order, as ``pyarrow.Table`` objects that `schema.encode` takes.

    Values of text files stay text, as they are written.

    Parameters
    ----------
    paths
        Files (CSV, JSON lines, Parquet, Arrow; text may be compressed), folders, or ``"-"`` for standard input.
    schema
        Says which columns there must be. Nothing is learned from the file.
    options
        The fields of `Options`, such as ``format``, ``delimiter``, ``ignore_extra``, ``batch_rows``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = path.write_text("x,y\n0.25,1\n0.5,0\n")
    >>> from headwater.public.cube import unit_cube
    >>> [table.num_rows for table in read(path, unit_cube(2))]
    [2]
    """
    with open_source(paths, schema, **options) as source:
        for batch in source:
            if batch is not None:
                yield batch.table


def read_points(paths: StrPath | Sequence[StrPath], schema: Any, **options: Any) -> Iterator[Points]:  # noqa: ANN401
    with open_source(paths, schema, **options) as source:
        for batch in source:
            if batch is not None:
                try:
                    yield schema.encode(batch.table)
                except TableError as error:
                    raise batch.with_line(error) from None


def read_bytes(
    data: bytes,
    schema: Any,  # noqa: ANN401
    form: str,
    bad_rows: str = "stop",
    *,
    ignore_extra: bool = False,
    delimiter: str = ",",
    encoding: str = "utf-8",
    **options: Any,  # noqa: ANN401 - of `Options`
) -> Iterator[Batch]:
    """The records of some bytes in batches, as a file of them would hold them; an error counts rows of all of them."""
    if form == "jsonl" and not data:
        return
    how: dict[str, Any] = {"encoding": encoding, "bad_rows": bad_rows, "ignore_extra": ignore_extra, **options}
    source, before = Input("", None, form, None, delimiter, bytes(data)), 0
    try:
        with open_source(source, schema, format=form, **how) as batches:
            for batch in batches:
                if batch is not None:
                    yield batch
                    before += batch.records
    except TableError as error:
        located = error.at()
        located.file = None
        if located.row is not None:
            located.row += before
        elif form == "jsonl" and located.line is not None:
            located.row = located.line - 1
        raise located from None
