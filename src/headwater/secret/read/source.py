"""All files of a run, one after another, as batches of records; each batch knows how to go on after it."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Sequence
from typing import Any, Self

from headwater.public.errors import SchemaError, TableError
from headwater.public.schema import read_as
from headwater.public.tables import pyarrow
from headwater.public.tally import with_way_out
from headwater.secret.read.batch import Batch, Position
from headwater.secret.read.fields import fields_of
from headwater.secret.read.options import InputChangedError, Options, OverwrittenError, changed
from headwater.secret.read.paths import Input, StrPath, plain_name
from headwater.secret.read.positions import check_position, old_seals
from headwater.secret.read.rotation import Files, Reader, inode_of, nothing_read
from headwater.secret.read.same_again import outgrown
from headwater.secret.read.seals import Seal, edges_digest
from headwater.secret.read.text_file import Part, TextFile

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
    >>> from headwater import unit_cube
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
        try:
            self._fields, self._options = fields_of(schema, options.text), options
        except SchemaError as error:  # the schema itself is good: an option does not fit it
            raise ValueError(str(error)) from None
        self._most = max(1, min(options.batch_rows, _MOST_VALUES // len(self._fields.fields)))
        self._size = min(_FIRST_BATCH, self._most)
        self._files = Files(paths, self._fields, options)
        self._inputs = self._files.inputs
        self._records, self._taken = 0, 0  # of all files, and of the one that is being read
        self._others = False  # whether other files are to be read
        self._reader: Reader | None = None
        self._previous: tuple[Reader, Seal] | None = None  # before that; as long as it is open, its inode is its own
        self.pending: Position | None = None
        """A position that no batch has, because no records came with it: files were read to their ends."""
        self.stopped = False
        """Whether `stop` was called."""
        held = None
        if position is None:
            self._inputs.look_first()
        else:
            held = self._resume(position)
        self._batches = self._run(held)

    @property
    def complete(self) -> bool:
        """Whether it ends by itself and reading never waits for a writer: all of it is files, and none is followed."""
        whole = not self._options.follow and not self._inputs.piped
        return whole and all(os.path.isfile(source.name) for source in self._inputs.found)

    @property
    def piped(self) -> bool:
        """Whether it reads standard input, where what was read and not taken is gone."""
        return self._inputs.piped

    @property
    def unfinished(self) -> int:
        """How many bytes were read of a record that has not ended."""
        reader = self._reader or (self._previous and self._previous[0])
        return reader.unfinished if isinstance(reader, TextFile) else 0

    def stop(self) -> None:
        """Take no more out of a pipe, and end after the records that were read. A signal handler may call it."""
        self.stopped = True
        if isinstance(self._reader, TextFile):
            self._reader.stop()

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
        for reader in (self._reader, self._previous and self._previous[0]):
            if reader is not None:
                reader.close()

    # ---- where an earlier run stopped

    def _resume(self, position: Position) -> tuple[Input, Reader] | None:
        """The file that an earlier run was reading, at the place where it stopped, under whatever name it has now."""
        check_position(position, "the input")
        self._records, self._files.name = position["records"], position["name"]
        if "finished" in position:
            self._inputs.look_first()
            for seal, source in old_seals(position, self._inputs.found, self._fields, self._options):
                self._files.seals.add(seal, source)
        else:
            self._files.restore(position["sealed"], position.get("last"))
            self._inputs.look_first()
        if self._inputs.piped or self._files.name == "-":
            return self._resume_pipe(position)
        self._files.refuse_grown()
        if not self._files.name or ("sealed" in position and nothing_read(position["place"])):
            self._files.find_unread(position.get("inode"), position.get("since", 0))
            return None
        self._taken = position.get("taken", 0)
        held, error = self._files.find_held(position["place"], position.get("inode"))
        if held is None:
            self._lost(position, error)
        return held

    def _resume_pipe(self, position: Position) -> tuple[Input, Reader]:
        source = self._inputs.found[0] if self._inputs.found else None
        if source is None or source.key != self._files.name:
            problem = f"another file stands where {self._files.name} was read before"
            file = source.name if source else "the input"
            raise InputChangedError(problem, "give the same input, or start a new run", file=file)
        return source, self._files.open(source, position["place"])

    def _lost(self, position: Position, error: TableError | None) -> None:
        """The file that was being read is nowhere: seal it if it was read to its end, or raise an error."""
        done = position.get("done")
        if self._options.gone_is_done:
            end = position["place"].get("end", 0)
            self._files.seals.add(
                Seal(*done)._replace(free=1) if done else Seal(self._files.name, end, self._taken, "", 1), None
            )
        elif error is not None:
            raise error
        elif done:
            self._files.seals.add(Seal(*done), None)
        else:
            where = self._inputs.found[-1].name if self._inputs.found else "the input"
            remedy = (
                "put it back; or, if all its records were taken or are lost, say so with gone_is_done (--gone-is-done)"
            )
            problem = f"the file {self._files.name}, which was being read before, is gone"
            raise InputChangedError(problem, remedy, file=where)
        self._files.name, self._taken = "", 0
        self.pending = self._position()

    # ---- reading

    def _run(self, held: tuple[Input, Reader] | None) -> Generator[Batch | None]:
        while True:
            if held is None:
                source = self._files.next()
                if source is not None:
                    held = self._files.open_new(source)
                    if held is None:  # it was rotated just now
                        continue
                    self._files.name, self._taken = source.key, 0
                    self._files.seals.reuse(source.key)
            if held is not None:
                source, self._reader = held
                self._files.begun = True
                moved = yield from self._read(source, self._reader)
                held = self._finish(source, self._reader, moved)
                if held is None and (self._inputs.piped or "done" in (self.pending or ())):
                    return
            elif self._options.follow and not self._inputs.piped:
                self._check_previous()
                time.sleep(self._options.poll_seconds)
                yield None
            else:
                return

    def _read(self, source: Input, reader: Reader) -> Generator[Batch | None, None, bool]:
        """One file to its end; whether it was copied away. If it is the last of a followed run, it has none."""
        drained, copied, begun = False, False, not self._taken and source.path is not None
        if self.stopped:
            self.stop()  # it was called before there was a reader
        self._others = self._options.follow and not self._inputs.piped and self._files.is_followed(source, reader)
        while True:
            others = self._others and not reader.moved  # what was renamed may still be written to
            complete = source.path is not None and (not self._options.follow or others or drained)
            try:
                batch, more = self._batch(source, reader, 0 if complete else self._options.poll_seconds)
            except OverwrittenError:
                held = self._files.find_copy(source, reader)
                drained = copied = True
                if held is None:
                    return True
                reader.close()
                source, reader = held
                self._reader = reader
                continue
            if batch is not None:
                yield batch
            elif not more or self.stopped:
                return copied
            else:
                self._check_previous()
                if begun:  # a run that ends now knows which file it was
                    self.pending, begun = self._position(reader) | {"place": reader.position()()}, False
                yield None
                if not self._taken:
                    self.pending = None
            if reader.idle and source.path is not None:
                drained = drained or reader.moved
                if not reader.moved:
                    self._inputs.look_again()
                    same = inode_of(source) == reader.inode
                    self._others = same and self._files.is_followed(source, reader)

    def _check_previous(self) -> None:
        """Raise an error if the file before the present one was written to after it was read to its end and renamed."""
        if self._previous is None:
            return
        reader, seal = self._previous
        if (reader.moved or seal.free) and reader.grown:
            self._files.refuse_grown()
            raise outgrown(seal.name, seal)

    def _batch(self, source: Input, reader: Reader, wait: float) -> tuple[Batch | None, bool]:
        """The next batch, and whether there may be more of this file."""
        limit = self._size if wait else self._most
        parts: list[Part] = []
        rows, begun = 0, time.monotonic()
        while True:
            end = min(_next_end(rows), limit) if source.path is None else limit
            try:
                part = reader.next(end - rows, wait)
            except OverwrittenError:  # raised again by the next look; what was read before that is there
                if not parts:
                    raise
                break
            except InputChangedError:
                raise
            except TableError as error:  # what came before it in this batch is not checked otherwise
                raise self._first_wrong(parts, source) or error from None
            if part is not None:
                parts.append(part)
                rows += part.records
            if part is None or reader.idle:
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
        self._taken += rows
        known, in_file = self._position(reader), reader.position()
        self.pending = None
        table = parts[0].table if len(parts) == 1 else pyarrow().concat_tables(part.table for part in parts)
        return Batch(table, source.name, lambda: {**known, "place": in_file()}, parts), True

    def _first_wrong(self, parts: Sequence[Part], source: Input) -> TableError | None:
        """What is wrong with the values of the first record that stops a run; None if all are good."""
        for part in parts if self._options.bad_rows == "stop" else ():
            wrong = self._fields.first_wrong(part.table)
            if wrong is not None and wrong.row is not None:
                return with_way_out(wrong.at(file=source.name, line=part.line(wrong.row)))
        return None

    def _position(self, reader: Reader | None = None) -> Position:
        """All of a position but the place in the file."""
        known: Position = {
            "records": self._records,
            "name": self._files.name,
            "place": {},
            "sealed": self._files.seals.to_list(),
        }
        known |= {"last": list(self._files.last[1])} if self._files.last and self._files.last[1] else {}
        if reader is None:
            return known
        known |= {"taken": self._taken, "inode": list(reader.inode)}
        return known if self._taken or not isinstance(reader, TextFile) else known | {"since": reader.written}

    def _finish(self, source: Input, reader: Reader, copied: bool) -> tuple[Input, Reader] | None:
        """Seal a file that was read to its end; or the same file again, if it was only written anew."""
        size, head, tail = reader.edges
        seal, where = Seal(self._files.name, size, self._taken, edges_digest(head, tail)), source
        place = reader.position()()
        if not self._options.follow and source.path is not None and self._files.is_last(source):
            self.pending = self._position(reader) | {"place": place, "done": list(seal)}
            reader.close()
            return None
        if reader.moved or copied:
            rotated = self._files.find_done(seal, reader.inode)
            known = copied or reader.linked or rotated is not None or self._options.gone_is_done
            if not known and not seal.records:
                self._files.seals.add(seal, None)  # so files without records are known
                self._files.refuse_unknown(self._files.name)
            elif not known and os.path.exists(source.name):
                try:  # the whole file was written anew, with what was in it
                    again = self._files.open(source, place)
                    reader.close()
                    return source, again
                except InputChangedError:
                    raise changed(source.name, "was replaced by another file") from None
            seal, where = seal._replace(free=int(known)), rotated or source
        elif plain_name(source.key) != plain_name(self._files.name):  # it was found under a name that rotation gave it
            seal = seal._replace(free=1)
        self._check_previous()
        self._files.finish(seal, reader.inode, where if not reader.moved or where is not source else None)
        if self._previous is not None:
            self._previous[0].close()
        self._previous, self._reader, self._taken = (reader, seal), None, 0
        self.pending = None if self._inputs.piped else self._position()
        return None


def _next_end(rows: int) -> int:
    """After how many records a batch of a pipe that has ``rows`` may end next: twice as many each time."""
    return _FIRST_BATCH << (rows // _FIRST_BATCH).bit_length()


def open_source(
    paths: StrPath | Sequence[StrPath],
    schema: Any,  # noqa: ANN401 - a Schema or a UnitCube
    position: Position | None = None,
    **options: Any,  # noqa: ANN401 - the fields of Options
) -> Source:
    """Open files of records, from the start or from an earlier ``position``. Keywords are the fields of `Options`.

    What they leave open is as the schema declares it (`Schema.reading`).
    """
    return Source(paths, schema, position, Options(**read_as(schema, options)))
