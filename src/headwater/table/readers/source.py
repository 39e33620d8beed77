"""All files of a run, one after another, as batches of records; each batch knows how to go on after it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any, Self

from headwater.partition import Points
from headwater.table.arrow import pyarrow
from headwater.table.errors import TableError
from headwater.table.readers.batch import Batch, Position
from headwater.table.readers.columnar import ColumnarFile
from headwater.table.readers.fields import fields_of
from headwater.table.readers.options import InputChangedError, Options, OverwrittenError, changed
from headwater.table.readers.paths import Input, Inputs, StrPath, plain_name, related
from headwater.table.readers.positions import check_file_position, check_position, old_seals
from headwater.table.readers.seals import Seal, Seals, edges_digest
from headwater.table.readers.text_file import FilePosition, Part, TextFile

Reader = TextFile | ColumnarFile

_FIRST_BATCH = 64  # records; so a slow pipe is looked at soon, and a fast one reaches full batches after a few
_MOST_VALUES = 1 << 21  # of a batch: how many columns there are is public


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
        self._inputs.may_be_gone = self._may_be_gone
        self._seals = Seals((), gone_is_done=options.gone_is_done, encoding=options.encoding)
        self._records, self._taken = 0, 0  # of all files, and of the one that is being read
        self._name = ""  # of that file, when it was opened first
        self._others = False  # whether other files are to be read
        self._copies: dict[str, os.stat_result] = {}
        self._reader: Reader | None = None
        self.pending: Position | None = None
        """A position that no batch has, because no records came with it: files were read to their ends."""
        held = None
        if position is None:
            self._inputs.look_first()
        else:
            held = self._resume(position)
        self._batches = self._run(held)

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

    # ---- where an earlier run stopped

    def _resume(self, position: Position) -> tuple[Input, Reader] | None:
        """The file that an earlier run was reading, at the place where it stopped, under whatever name it has now."""
        check_position(position, "the input")
        self._records, self._name = position["records"], position["name"]
        if "finished" in position:
            self._inputs.look_first()
            for seal, source in old_seals(position, self._inputs.found, self._fields, self._options):
                self._seals.add(seal, source)
        else:
            options = self._options
            self._seals = Seals(position["sealed"], gone_is_done=options.gone_is_done, encoding=options.encoding)
            self._inputs.look_first()
        if self._inputs.piped or self._name == "-":
            return self._resume_pipe(position)
        if not self._name:
            if self._seals.all:
                last = self._seals.all[-1]
                if self._look_between(last.name, self._holds(last)) is None and not self._options.gone_is_done:
                    self._refuse_unknown(last.name)
            return None
        self._taken = position.get("taken", 0)
        held, error = self._holder(position["place"], position.get("inode"))
        if held is None:
            self._lost(position, error)
        return held

    def _resume_pipe(self, position: Position) -> tuple[Input, Reader]:
        source = self._inputs.found[0] if self._inputs.found else None
        if source is None or source.key != self._name:
            problem = f"another file stands where {self._name} was read before"
            file = source.name if source else "the input"
            raise InputChangedError(problem, "give the same input, or start a new run", file=file)
        return source, self._open(source, position["place"])

    def _refuse_unknown(self, name: str) -> None:
        """Raise an error if rotated files lie there that nobody named, and nothing says whether they were read."""
        named = {one.name for one in self._inputs.found}
        for one in self._inputs.rotated(name):
            if named and one.name not in named and not self._seals.claims(one):
                problem = f"what was read of {name} is gone, and nothing says whether this file came after it"
                remedy = (
                    "if it did, name it as well, before the others; if not, move it away, or say that files which are "
                    "not named are done with gone_is_done (--gone-is-done)"
                )
                raise InputChangedError(problem, remedy, file=one.name)

    def _lost(self, position: Position, error: TableError | None) -> None:
        """The file that was being read is nowhere: seal it if it was read to its end, or raise an error."""
        done = position.get("done")
        if self._options.gone_is_done:
            end = position["place"].get("end", 0)
            self._seals.add(Seal(*done)._replace(free=1) if done else Seal(self._name, end, self._taken, "", 1), None)
        elif error is not None:
            raise error
        elif done:
            self._seals.add(Seal(*done), None)
        else:
            where = self._inputs.found[-1].name if self._inputs.found else "the input"
            remedy = (
                "put it back; or, if all its records were taken or are lost, say so with gone_is_done (--gone-is-done)"
            )
            problem = f"the file {self._name}, which was being read before, is gone"
            raise InputChangedError(problem, remedy, file=where)
        self._name, self._taken = "", 0
        self.pending = self._position()

    def _holder(
        self, place: FilePosition, inode: Sequence[int] | None = None
    ) -> tuple[tuple[Input, Reader] | None, TableError | None]:
        """The file that holds what was read of the present one; or what is wrong with the one that has its name."""
        found, first = self._inputs.found, None
        same = [one for one in found if inode and _inode(one) == tuple(inode) and related(self._name, one.key)]
        rest = [one for one in found if one not in same and not self._seals.claims(one)]
        same += [one for one in rest if plain_name(one.key) == plain_name(self._name)]
        names = {one.name for one in found}
        beside = [one for one in self._inputs.rotated(self._name) if one.name not in names]
        same += [one for one in [*rest, *beside] if one not in same and related(self._name, one.key)]
        for one in same:
            try:
                reader = self._open(one, place)
            except InputChangedError as error:
                first = first or (error if plain_name(one.key) == plain_name(self._name) else None)
                continue
            self._look_between(self._name, partial(_is_at, one.name))
            return (one, reader), None
        return None, first

    def _holds(self, seal: Seal) -> Callable[[Input], bool]:
        return lambda one: seal.matches(one, self._options.encoding)

    def _look_between(self, name: str, is_it: Callable[[Input], bool]) -> Input | None:
        """Where a rotated file lies that nobody has named; files that came after it will be read as well."""
        chain = self._inputs.rotated(name)
        place = next((number for number, one in enumerate(chain) if is_it(one)), None)
        if place is None:
            return None
        if chain[place].name not in {one.name for one in self._inputs.found}:
            self._inputs.between = chain[place + 1 :]
            self._inputs.look_again()
        return chain[place]

    # ---- reading

    def _open(self, source: Input, position: FilePosition | None) -> Reader:
        if position is not None:
            check_file_position(position, source)
        kind = ColumnarFile if source.format in ("parquet", "arrow") else TextFile
        return kind(source, self._fields, self._options, position)

    def _run(self, held: tuple[Input, Reader] | None) -> Generator[Batch | None]:
        while True:
            if held is None:
                self._inputs.look_again()
                source = self._unread()
                if source is not None:
                    held = self._opened(source)
                    if held is None:  # it was rotated just now
                        continue
                    self._name, self._taken = source.key, 0
                    self._seals.reuse(source.key)
            if held is not None:
                source, self._reader = held
                moved = yield from self._read(source, self._reader)
                held = self._finish(source, self._reader, moved)
                if held is None and (self._inputs.piped or "done" in (self.pending or ())):
                    return
            elif self._options.follow and not self._inputs.piped:
                time.sleep(self._options.poll_seconds)
                yield None
            else:
                return

    def _opened(self, source: Input) -> tuple[Input, Reader] | None:
        """A file to be read from the start; None if a rotation came in between, and another one comes first."""
        reader = self._open(source, None)
        last = self._seals.all[-1] if self._seals.all else None
        if last is not None and related(last.name, source.key):
            self._inputs.look_again()
            self._look_between(last.name, self._holds(last))
            first = self._unread()
            if first is None or _inode(first) != reader.inode:
                reader.close()
                return None
        return source, reader

    def _read(self, source: Input, reader: Reader) -> Generator[Batch | None, None, bool]:
        """One file to its end; whether it was copied away. If it is the last of a followed run, it has none."""
        drained = copied = False
        self._others = self._options.follow and not self._inputs.piped and self._is_followed(source, reader)
        while True:
            complete = source.path is not None and (not self._options.follow or self._others or drained)
            try:
                batch, more = self._batch(source, reader, 0 if complete else self._options.poll_seconds)
            except OverwrittenError:
                held = self._copy(source, reader)
                drained = copied = True
                if held is None:
                    return True
                reader.close()
                source, reader = held
                self._reader = reader
                continue
            if batch is not None:
                yield batch
            elif not more:
                return copied
            else:
                yield None
            if reader.idle and source.path is not None:
                drained = drained or reader.moved
                if not reader.moved:
                    self._inputs.look_again()
                    self._others = self._is_followed(source, reader)

    def _batch(self, source: Input, reader: Reader, wait: float) -> tuple[Batch | None, bool]:
        """The next batch, and whether there may be more of this file."""
        limit = self._size if wait else self._most
        parts: list[Part] = []
        rows, begun = 0, time.monotonic()
        while rows < limit:
            part = reader.next(limit - rows, wait)
            if part is not None:
                parts.append(part)
                rows += part.records
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
        self._taken += rows
        known, in_file = self._position(reader), reader.position()
        self.pending = None
        table = parts[0].table if len(parts) == 1 else pyarrow().concat_tables(part.table for part in parts)
        return Batch(table, source.name, lambda: {**known, "place": in_file()}, parts), True

    def _position(self, reader: Reader | None = None) -> Position:
        """All of a position but the place in the file."""
        known: Position = {"records": self._records, "name": self._name, "place": {}, "sealed": self._seals.to_list()}
        return known | ({} if reader is None else {"taken": self._taken, "inode": list(reader.inode)})

    # ---- files that come and go

    def _may_be_gone(self, name: str) -> bool:
        if self._reader is not None and self._options.follow:
            return True
        known = [self._name, *(seal.name for seal in self._seals.all)]
        return plain_name(name) in map(plain_name, known)

    def _unread(self) -> Input | None:
        """The first file that is not done."""
        return next((one for one in self._inputs.found if not self._seals.holds(one)), None)

    def _is_followed(self, source: Input, reader: Reader) -> bool:
        """Whether another file is to be read after the present one. What was copied from it is none."""
        for one in self._inputs.found:
            own = one.name == source.name or _inode(one) == reader.inode or self._seals.holds(one)
            if not own and not (related(self._name, one.key) and self._is_copy(one, reader)):
                return True
        return False

    def _is_copy(self, source: Input, reader: Reader) -> bool:
        """Whether a file begins with what was read of the present one; looked at once, unless it changes."""
        try:
            status = os.stat(source.name)
            if self._copies.get(source.name) != status:
                self._open(source, reader.position()()).close()
                self._copies[source.name] = status
        except (OSError, TableError):
            return False
        return True

    def _copy(self, source: Input, reader: Reader) -> tuple[Input, Reader] | None:
        """Where the content of a file lies that was cut or written over; an error if it is nowhere."""
        place = reader.position()()
        for one in self._inputs.rotated(self._name):
            if one.name != source.name and not self._seals.claims(one):
                try:
                    held = one, self._open(one, place)
                except TableError:
                    continue
                self._look_between(self._name, partial(_is_at, one.name))
                return held
        if not self._options.gone_is_done:
            raise changed(source.name, "changed (it was cut or written over, and no copy of it is beside it)")
        return None

    def _finish(self, source: Input, reader: Reader, copied: bool) -> tuple[Input, Reader] | None:
        """Seal a file that was read to its end; or the same file again, if it was only written anew."""
        size, head, tail = reader.edges
        seal, where = Seal(self._name, size, self._taken, edges_digest(head, tail)), source
        place = reader.position()()
        if not self._options.follow and source.path is not None and self._is_last(source, reader):
            self.pending = self._position(reader) | {"place": place, "done": list(seal)}
            reader.close()
            return None
        if reader.moved or copied:
            inode = reader.inode
            rotated = self._look_between(
                self._name, lambda one: _inode(one) == inode or seal.matches(one, self._options.encoding)
            )
            known = copied or reader.linked or rotated is not None or self._options.gone_is_done
            if not known and os.path.exists(source.name):
                try:  # the whole file was written anew, with what was in it
                    again = self._open(source, place)
                    reader.close()
                    return source, again
                except InputChangedError:
                    raise changed(source.name, "was replaced by another file") from None
            seal, where = seal._replace(free=int(known)), rotated or source
        elif plain_name(source.key) != plain_name(self._name):  # it was found under a name that rotation gave it
            seal = seal._replace(free=1)
        reader.close()
        self._seals.add(seal, where if not reader.moved or where is not source else None)
        self._name, self._taken = "", 0
        self.pending = None if self._inputs.piped else self._position()
        return None

    def _is_last(self, source: Input, reader: Reader) -> bool:
        """Whether nothing but this file is left to be read."""
        self._inputs.look_again()
        return all(one.name == source.name or self._seals.holds(one) for one in self._inputs.found)


def _is_at(path: str, source: Input) -> bool:
    return source.name == path


def _inode(source: Input) -> tuple[int, int] | None:
    try:
        status = os.stat(source.name)
    except OSError:
        return None
    return status.st_dev, status.st_ino


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
