"""All files of a run, one after another, as batches of records; each batch knows how to go on behind it."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Self

from headwater.public.errors import TableError
from headwater.public.schema import read_as, reading_of
from headwater.public.tables import pyarrow
from headwater.public.tally import with_way_out
from headwater.secret.read.batch import Batch, Position
from headwater.secret.read.columnar import ColumnarFile
from headwater.secret.read.fields import Fields, Options
from headwater.secret.read.files import Files, Paths, StrPath, plain_name
from headwater.secret.read.lines import GrowingFile, Input, InputChangedError, Pipe
from headwater.secret.read.text import TextFile, UncertainError

_FIRST_BATCH = 64  # records; so a slow pipe is looked at soon, and a fast one reaches full batches after a few
_MOST_VALUES = 1 << 21  # of a batch: how many columns there are is public


class Source:
    """Files as an iterator of batches. With ``follow`` it never ends. It gives None after a poll that found nothing.

    Formal guarantees
    -----------------
    A batch ends after a number of records that depends on public facts only (options, number of columns, how many
    records there are in each file), or when a pipe or a followed file is idle or stopped. The text of a record decides
    nothing but the record (``proofs/tables.md``).
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
        self._fields = Fields.of(schema, ignore_extra=options.ignore_extra)
        self._most = max(1, min(options.batch_rows, _MOST_VALUES // len(self._fields.columns)))
        self._size = min(_FIRST_BATCH, self._most)
        self._files = Files(paths, options)
        self.piped = self._files.piped
        """Whether it reads standard input or a pipe, where what was read and not taken is gone."""
        self.reading: Mapping[str, Any] | None = None
        """What is in force of what a schema may declare about files, if it is known."""
        self.complete = not options.follow and not self.piped
        """Whether it ends by itself and reading never waits for a writer: all of it is files, and none is followed."""
        self.stopped = False
        """Whether `stop` was called."""
        self.pending: Position | None = None
        """A position that no batch has, because no records came with it."""
        self._records, self._kept = 0, position
        self._reader: TextFile | ColumnarFile | None = None
        if position is not None:
            self._resume(position)
        elif not self._files.look() and not options.follow:
            raise TableError("no files in this folder", "name a folder with files", file=self._files.given)
        self._batches = self._run()

    @property
    def unfinished(self) -> int:
        """How many bytes were read of a record that has not ended."""
        return self._reader.lines.unfinished if isinstance(self._reader, TextFile) else 0

    def stop(self) -> None:
        """Take no more out of a pipe, and end after the records that were read. A signal handler may call it."""
        self.stopped = True
        if isinstance(self._reader, TextFile) and isinstance(self._reader.lines.raw, Pipe):
            self._reader.lines.raw.stopped = True

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
        self._records, name, place, done = (position[key] for key in ("records", "name", "place", "done"))
        files.finished = {key: list(seals) for key, seals in position["finished"].items()}
        files.current, files.beside = name, dict(position["beside"])
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
        if not done or self.piped:
            problem = f"{name} is gone, which was being read"
            raise InputChangedError(problem, "put it back under its name", file=files.given)
        files.finished.setdefault(name, []).append(done)
        files.current = ""
        self.pending = self._position()

    def _open(self, source: Input, place: dict[str, Any] | None = None) -> TextFile | ColumnarFile:
        if source.format in ("parquet", "arrow"):
            return ColumnarFile(source, self._fields, self._options, place)
        return TextFile(source, self._fields, self._options, self._files.look_beside, place)

    def _run(self) -> Generator[Batch | None]:
        """The batches of one file after another."""
        files, options = self._files, self._options
        while True:
            if self._reader is None:
                found = files.look()
                if not found:
                    if not options.follow or self.piped:
                        return
                    time.sleep(options.poll_seconds)
                    yield None
                    continue
                files.current = found[0].key
                files.look_beside(fresh=found[0].key)
                self._reader = self._open(found[0])
            reader = self._reader
            plain = isinstance(reader, TextFile) and isinstance(reader.lines.raw, GrowingFile)
            follows = options.follow and plain and not self._others()
            if self.stopped:
                self.stop()  # it was called before there was a reader
            while True:
                if follows and reader.idle:
                    follows = not self._others()
                if batch := self._batch(reader, options.poll_seconds if self.piped or follows else 0):
                    self._kept, self.pending = batch.position, None
                    yield batch
                elif reader.idle and not self.stopped:
                    self._keep(self._position())
                    yield None
                else:
                    break
            if reader.source.path is None or self.stopped:
                return
            seal = reader.seal()
            if plain and not options.follow and not self._others(seal):
                self._keep(self._position(done=seal))
                return
            reader.close()
            files.finish(reader.source, seal)
            self._reader = None
            self._keep(self._position())

    def _others(self, seal: str = "") -> bool:
        """Whether there are other files than the one that is being read."""
        return any(self._reader is None or one.name != self._reader.source.name for one in self._files.look(seal))

    def _batch(self, reader: TextFile | ColumnarFile, wait: float) -> Batch | None:
        """The next batch; None if no records came within ``wait`` seconds."""
        limit, begun = self._size if wait else self._most, time.monotonic()
        end = min(_FIRST_BATCH, limit) if self.piped else limit
        while (found := reader.ahead(end, wait)) == end:
            took = (time.monotonic() - begun) / self._options.poll_seconds
            if end < limit and took < 1:
                end = min(2 * end, limit)
                continue
            if took > 1 / 2:
                self._size = max(1, self._size // 2)
            elif took < 1 / 16:
                self._size = min(2 * self._size, self._most)
            break
        if not found:
            return None
        batch = reader.take(found)
        self._records += found
        batch.position = self._position()
        if batch.bad:
            self._refuse_bad(batch)
        return batch

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
                schema.encode(before.select(list(schema.inputs)) if hasattr(schema, "inputs") else before)
            except TableError as error:
                raise batch.with_line(error) from None
        said = batch.located(wrong.error, wrong.row)
        raise said if isinstance(said, UncertainError) else with_way_out(said)

    def _position(self, done: str = "") -> Position:
        files = self._files
        finished = {name: list(seals) for name, seals in files.finished.items()}
        place = self._reader.place if self._reader is not None and files.current else {}
        known = {"records": self._records, "name": files.current, "done": done, "place": place}
        return known | {"finished": finished, "beside": dict(files.beside)}

    def _keep(self, position: Position) -> None:
        """Offer a position that no batch has, once."""
        self.pending = None if self.piped or position == self._kept else position
        self._kept = position


def open_source(
    paths: Paths,
    schema: Any,  # noqa: ANN401 - a Schema or a UnitCube
    position: Position | None = None,
    **options: Any,  # noqa: ANN401 - the fields of Options
) -> Source:
    given = read_as(schema, options)
    source = Source(paths, schema, position, Options(**given))
    source.reading = reading_of(schema, given)
    return source


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


def batches_of(table: Any, schema: Any, bad_rows: str = "stop") -> Iterator[Any]:  # noqa: ANN401 - of any library
    """The batches of whatever a user calls records: those of a file, what an iterator gives, or one table by itself."""
    if isinstance(table, str | os.PathLike):
        with open_source(table, schema, bad_rows=bad_rows) as source:
            yield from (batch for batch in source if batch is not None)
    elif hasattr(table, "__next__"):
        yield from table
    else:
        yield table


def read_bytes(
    data: bytes,
    schema: Any,  # noqa: ANN401
    form: str,
    bad_rows: str = "stop",
    *,
    delimiter: str = ",",
    encoding: str = "utf-8",
    **options: Any,  # noqa: ANN401 - of `Options`
) -> Iterator[Batch]:
    """The records of some bytes in batches, as a file of them would hold them; an error counts rows of all of them."""
    if form == "jsonl" and not data:
        return
    source, before = Input("", None, form, None, delimiter, bytes(data)), 0
    how: dict[str, Any] = {"ignore_extra": False, "encoding": encoding, "bad_rows": bad_rows, "format": form} | options
    try:
        with open_source(source, schema, **how) as batches:
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
