"""All files of a run, one after another, as batches of records; each batch knows how to go on behind it.

Files only grow. The files of a folder are read in the order of their names, each once. The last one may grow; all
before it are finished, and may be deleted or compressed then. Whatever else happens to a file that was read, is refused.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from headwater.partition import Points
from headwater.table.arrow import pyarrow
from headwater.table.bad_rows import with_way_out
from headwater.table.errors import TableError
from headwater.table.file_options import read_as
from headwater.table.readers.batch import Batch, Part, Position
from headwater.table.readers.columnar import ColumnarFile
from headwater.table.readers.fields import Fields, fields_of
from headwater.table.readers.lines import (
    DAMAGED,
    STANDARD_INPUT,
    WAYS_OUT,
    Input,
    InputChangedError,
    Pipe,
    WholeFile,
    changed,
    open_raw,
    refused,
    seal_of,
)
from headwater.table.readers.options import Options
from headwater.table.readers.text import TextFile, UncertainError

StrPath = str | os.PathLike[str]
Paths = StrPath | Sequence[StrPath] | Input
Reader = TextFile | ColumnarFile

_FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json"}
_FORMATS |= {".parquet": "parquet", ".pq": "parquet"}
_FORMATS |= dict.fromkeys((".arrow", ".arrows", ".ipc", ".feather"), "arrow")
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".lz4": "lz4"}
_UNFINISHED = (".tmp", ".part", "~")  # by custom, files that somebody is still writing
_FIRST_BATCH = 64  # records; so a slow pipe is looked at soon, and a fast one reaches full batches after a few
_MOST_VALUES = 1 << 21  # of a batch: how many columns there are is public


def plain_name(name: str) -> str:
    """A name without the ending of a compression."""
    stem, suffix = os.path.splitext(name)
    return stem if suffix.lower() in _COMPRESSIONS else name


def stem_of(name: str) -> tuple[str, str]:
    """A name without compression, and what it ends with; a number is no ending.

    >>> stem_of("log.csv.gz"), stem_of("log.csv.1")
    (('log', '.csv'), ('log.csv.1', ''))
    """
    stem, ending = os.path.splitext(plain_name(name))
    return (stem + ending, "") if ending[1:2].isdigit() else (stem, ending)


def is_beside(name: str, of: str) -> bool:
    """Whether a file may be another one, or part of it, that was renamed or copied: something is added to its name.

    >>> [is_beside(name, "log.csv") for name in ("log.csv.1", "log.1.csv", "log-20260111.csv.gz", "log2.csv", "log.1")]
    [True, True, True, True, True]
    >>> is_beside("logs.csv", "log.csv"), is_beside("log-2.csv", "log-1.csv"), is_beside("log.csv.gz", "log.csv")
    (False, False, False)
    """
    stem, ending = stem_of(of)
    plain = plain_name(name)
    if not plain.startswith(stem) or plain == stem + ending:
        return False
    added = plain[len(stem) :]
    if ending and added.startswith(ending):  # behind the ending
        return not added[len(ending)].isalnum()
    if ending and added.endswith(ending):  # before it
        return not added[0].isalnum() or (added[0].isdigit() and not stem[-1:].isdigit())
    return not added[0].isalnum() and (not ending or added[1:2].isdigit())


class Files:
    """Which files are finished, which one is being read, and what lies beside them."""

    def __init__(self, paths: Paths, options: Options) -> None:
        given: list[Any] = [paths] if isinstance(paths, str | os.PathLike | Input) else list(paths)
        self._paths = [one if isinstance(one, Input) else os.fspath(one) for one in given]
        self._options = options
        if not self._paths:
            raise ValueError("name at least one file")
        self.piped = any(isinstance(path, str) and is_pipe(path) for path in self._paths)
        if self.piped and len(self._paths) > 1:
            raise ValueError("standard input (-) or a named pipe cannot be read together with anything else")
        self.finished: dict[str, list[str]] = {}
        """The seals of finished files, by name: there may be several of one name, in several folders."""
        self.current = ""
        """The name of the file that is being read, or was read last."""
        self.beside: dict[str, int] = {}
        """The sizes of files that lie beside those, and might be taken for what became of them."""
        self._seals: dict[tuple[str, bool], tuple[Any, str]] = {}
        self._folders, self._unread = set[str](), set[str]()

    @property
    def given(self) -> str:
        """The first path that was given, for errors."""
        return "records" if isinstance(self._paths[0], Input) else self._paths[0]

    @property
    def whole(self) -> bool:
        """Whether all of them are files or in memory."""
        return not self.piped and all(isinstance(path, Input) or os.path.exists(path) for path in self._paths)

    def look(self, seal: str = "") -> list[Input]:
        """The files that are there now and are not finished, in order; an error if one that was read has changed.

        With the ``seal`` of what was read of the present file, one that was compressed from it is known as well.
        """
        if self.piped or isinstance(self._paths[0], Input):
            return [self._input(path) for path in self._paths]
        self._folders = {path if os.path.isdir(path) else os.path.dirname(path) for path in map(str, self._paths)}
        found = [self._input(name) for path in self._paths for name in self._expand(str(path))]
        left = {name: list(seals) for name, seals in self.finished.items()}
        same = {one.name for one in found if one.key in left and _removed(left[one.key], self._seal(one, raw=True))}
        names, unread = {one.key for one in found}, list[Input]()
        for one in found:
            if one.name not in same:
                if left.get(one.key):
                    raise changed(one.name, "was read to its end, and holds other records than were in it")
                if not self._is_compressed(one, names, seal):
                    unread.append(one)
        self._unread = {one.key for one in unread}
        self.look_beside()
        return unread

    def look_beside(self, *, fresh: str = "") -> None:
        """Refuse what has appeared beside files that were read, but for a ``fresh`` one, whose neighbours are noted."""
        read = {*self.finished, self.current} - {""}
        stems: dict[str, list[str]] = {}
        for name in read:
            stems.setdefault(stem_of(name)[0], []).append(name)
        there: dict[str, int] = {}
        for entry in (one for folder in self._folders for one in _entries(folder)):
            name = entry.name
            if name in read or name[0] == "." or name.endswith(_UNFINISHED):
                continue
            of = [one for end in range(1, len(name) + 1) for one in stems.get(name[:end], ()) if is_beside(name, one)]
            if of and entry.is_file():
                there[name] = entry.stat().st_size
                known = self.beside.get(name) == there[name] or (name in self.beside and name in self._unread)
                if not known and of != [fresh]:
                    problem = (
                        f"it has {'changed' if name in self.beside else 'appeared'} beside {of[0]}, which was read"
                    )
                    raise InputChangedError(f"{problem}, and may hold records of it", WAYS_OUT, file=entry.path)
        self.beside = there

    def begin(self, source: Input) -> None:
        """A file is going to be read: what lies beside it now does not come from it."""
        self.current = source.key
        self.look_beside(fresh=source.key)

    def finish(self, source: Input, seal: str) -> None:
        """A file was read to its end."""
        self.finished.setdefault(source.key, []).append(seal)
        self.current = ""

    def _is_compressed(self, source: Input, names: set[str], seal: str) -> bool:
        """Whether a new file was compressed from one that was read, and holds the same records; an error if others."""
        plain = plain_name(source.key)
        if plain == self.current and plain in names and source.key != plain:
            seals = [seal] if seal else []  # until all of that is read, nobody knows
        else:
            alike = [name for name in self.finished if plain_name(name) == plain and name != source.key]
            if not alike or source.key in self.finished:
                return False
            seals = [seal for name in alike for seal in self.finished[name]]
        try:
            if not seals or self._seal(source, raw=False) in seals:
                return True
        except TableError as error:
            if self._options.follow and plain in names and error.problem == DAMAGED.problem:
                return True  # it is being made
            raise
        raise changed(source.name, "has the name of a file that was read to its end, and holds other records")

    def _seal(self, source: Input, *, raw: bool) -> str:
        """The seal of a file, or of its text; looked at once, unless it changes."""
        assert source.path is not None  # noqa: S101 - for the type checker
        try:
            now = os.stat(source.path)
        except OSError as error:
            raise refused(source.name, error) from None
        status = (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
        known = self._seals.get((source.name, raw))
        if known is None or known[0] != status:
            known = status, seal_of(source.path, source.name) if raw else _text_seal(source)
            self._seals[source.name, raw] = known
        return known[1]

    def _expand(self, path: str) -> list[str]:
        if not os.path.exists(path) and os.path.basename(path) in self.finished:
            return []
        try:
            os.stat(path)
            if not os.path.isdir(path):
                return [path]
            names = [name for name in sorted(os.listdir(path)) if not (name[0] == "." or name.endswith(_UNFINISHED))]
        except OSError as error:
            raise refused(path, error) from None
        here = os.path.realpath(path)  # a link to a file of the folder is no other file
        return [one for name in names if not _leads_into(one := os.path.join(path, name), here)]

    def _input(self, path: str | Input) -> Input:
        if isinstance(path, Input):
            return path
        options = self._options
        if path == "-":
            return Input(STANDARD_INPUT, None, options.format or "csv", None, options.delimiter or ",")
        stem, suffix = os.path.splitext(path.lower())
        compression = _COMPRESSIONS.get(suffix)
        name = stem if compression else path.lower()
        kind = options.format or next((_FORMATS[part] for part in _endings(name) if part in _FORMATS), None)
        delimiter = options.delimiter or ("\t" if ".tsv" in _endings(name) else ",")
        if os.path.isdir(path):
            raise TableError("a folder inside a folder", "name the inner folder itself", file=path)
        if kind is None:
            remedy = "give it an ending such as .csv or .parquet, or declare input_format in the schema file"
            raise TableError("the name does not say what is in the file", remedy, file=path)
        if is_pipe(path):
            if not self.piped:
                raise TableError("a pipe inside a folder", "name the pipe itself", file=path)
            if compression:
                raise TableError("a compressed pipe", "decompress on the way into the pipe", file=path)
            return Input(path, None, kind, None, delimiter)
        if compression and kind in ("parquet", "arrow"):
            raise TableError("a compressed Parquet or Arrow file", "decompress it first", file=path)
        return Input(path, Path(path), kind, compression, delimiter)


def _removed(seals: list[str], seal: str) -> bool:
    """Whether a seal is among others, which it is not any more."""
    return seal in seals and seals.remove(seal) is None


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder or ".") as entries:
        yield from entries


def _endings(name: str) -> list[str]:
    """What a name ends with, and before that, where numbers and dates were added."""
    parts = os.path.basename(name).split(".")[1:]
    while len(parts) > 1 and parts[-1][:1].isdigit():
        parts.pop()
    return [f".{part.split('-')[0]}" for part in parts[-1:]]


def _leads_into(path: str, folder: str) -> bool:
    return os.path.islink(path) and os.path.dirname(os.path.realpath(path)) == folder


def is_pipe(path: str) -> bool:
    """Whether this is standard input or a named pipe, as of a shell's process substitution: read once, as it comes."""
    try:
        return path == "-" or stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def _text_seal(source: Input) -> str:
    """The seal of what a file holds, decompressed."""
    if source.compression is None:
        assert source.path is not None  # noqa: S101 - for the type checker
        return seal_of(source.path, source.name)
    file = WholeFile(source)
    try:
        while file.read(1 << 20):
            pass
        return file.edges.seal
    finally:
        file.close()


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
    >>> from headwater.table.unit_cube import unit_cube
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
        """Whether there are other files to be read after this one."""
        return any(one.name != reader.source.name for one in self._files.look(seal))

    def _read(self, reader: Reader) -> Generator[Batch | None]:
        """One file to its end. If it is the last of a followed run, it has none."""
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
        """A position that a run should keep, unless it has."""
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
    """After how many records a batch of a pipe that has ``rows`` may end next: twice as many each time."""
    return _FIRST_BATCH << (rows // _FIRST_BATCH).bit_length()


def _joined(tables: list[Any]) -> Any:  # noqa: ANN401 - of pyarrow
    """One table after another. Where a column came as text in one of them, it is text in all."""
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
    """Open files of records, from the start or from an earlier ``position``. Keywords are the fields of `Options`.

    What they leave open is as the schema declares it (`Schema.reading`).
    """
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


def read_bytes(
    data: bytes,
    schema: Any,  # noqa: ANN401
    form: str,
    bad_rows: str = "stop",
    *,
    ignore_extra: bool = False,
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> Iterator[Batch]:
    """The records of some bytes in batches, as a file of them would hold them.

    Errors name lines, rows and columns. A row of an error is that of its table; of JSON lines, where a line is
    a record, an error of the text has the row of the whole. What the schema declares about files is not about bytes,
    unless it is given here.
    """
    if form == "jsonl" and not data:
        return
    how: dict[str, Any] = {"encoding": encoding, "bad_rows": bad_rows, "ignore_extra": ignore_extra}
    source = Input("", None, form, None, delimiter, bytes(data))
    try:
        with open_source(source, schema, format=form, **how) as batches:
            for batch in batches:
                if batch is not None:
                    yield batch
    except TableError as error:
        located = error.at()
        located.file = None
        if form == "jsonl" and located.row is None and located.line is not None:
            located.row = located.line - 1
        raise located from None
