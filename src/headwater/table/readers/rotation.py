"""Which file a source is reading, under whatever name it has now: files that rotate, come and go."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from headwater.table.errors import TableError
from headwater.table.readers.columnar import ColumnarFile
from headwater.table.readers.fields import Fields
from headwater.table.readers.options import InputChangedError, Options, changed
from headwater.table.readers.paths import Input, Inputs, StrPath, age, plain_name, related
from headwater.table.readers.positions import check_file_position
from headwater.table.readers.same_again import refuse_half, refuse_outgrown, refuse_same
from headwater.table.readers.seals import EDGE, Seal, Seals
from headwater.table.readers.text_file import FilePosition, TextFile

Reader = TextFile | ColumnarFile


class Files:
    """All files of a source: those that are done (`seals`), those that are there, and the one that is being read.

    Parameters
    ----------
    paths
        Files and folders, as they were given.
    fields
        What is read of a record.
    options
        How files are read.
    """

    def __init__(self, paths: StrPath | Sequence[StrPath], fields: Fields, options: Options) -> None:
        self._fields, self._options = fields, options
        self.inputs = Inputs(paths, options)
        self.inputs.may_be_gone = self.may_be_gone
        self.seals = Seals((), gone_is_done=options.gone_is_done, encoding=options.encoding)
        self.name = ""
        """Of the file that is being read, when it was opened first."""
        self.begun = False
        """Whether any file was read."""
        self._copies: dict[str, os.stat_result] = {}

    def restore(self, sealed: list[Any]) -> None:
        """Know the files that an earlier run has read to their ends."""
        options = self._options
        self.seals = Seals(sealed, gone_is_done=options.gone_is_done, encoding=options.encoding)

    def open(self, source: Input, position: FilePosition | None) -> Reader:
        """A file, from its start or from where an earlier run stopped."""
        if position is not None:
            check_file_position(position, source)
        kind = ColumnarFile if source.format in ("parquet", "arrow") else TextFile
        return kind(source, self._fields, self._options, position)

    def open_new(self, source: Input) -> tuple[Input, Reader] | None:
        """A file to be read from the start; None if a rotation came in between, and another one comes first.

        An error if the file holds what was read under another name.
        """
        if not self._options.same_again:
            refuse_same(source, self.seals.all, self._options.encoding)
            refuse_outgrown(source, self.seals)
            refuse_half(source, self.inputs.found, self.seals, self._options.encoding)
        reader = self.open(source, None)
        last = self.seals.all[-1] if self.seals.all else None
        if last is not None and related(last.name, source.key):
            self.inputs.look_again()
            self.look_between(last.name, self.holds(last))
            first = self.unread()
            if first is None or inode_of(first) != reader.inode:
                reader.close()
                return None
        return source, reader

    def find_held(
        self, place: FilePosition, inode: Sequence[int] | None = None
    ) -> tuple[tuple[Input, Reader] | None, TableError | None]:
        """The file that holds what was read of the present one; or what is wrong with the one that has its name."""
        found, first = self.inputs.found, None
        same = [one for one in found if inode and inode_of(one) == tuple(inode) and related(self.name, one.key)]
        rest = [one for one in found if one not in same and not self.seals.claims(one)]
        same += [one for one in rest if plain_name(one.key) == plain_name(self.name)]
        names = {one.name for one in found}
        beside = [one for one in self.inputs.rotated(self.name) if one.name not in names]
        same += [one for one in [*rest, *beside] if one not in same and related(self.name, one.key)]
        for one in same:
            try:
                reader = self.open(one, place)
            except InputChangedError as error:
                first = first or (error if plain_name(one.key) == plain_name(self.name) else None)
                continue
            self.look_between(self.name, partial(_is_at, one.name))
            return (one, reader), None
        return None, first

    def holds(self, seal: Seal) -> Callable[[Input], bool]:
        """Whether a file has what a seal says was read."""
        return lambda one: seal.matches(one, self._options.encoding)

    def look_between(self, name: str, is_it: Callable[[Input], bool]) -> Input | None:
        """Where a rotated file lies that nobody has named; files that came after it will be read as well."""
        chain = self.inputs.rotated(name)
        place = next((number for number, one in enumerate(chain) if is_it(one)), None)
        if place is None:
            return None
        self.seals.free_younger(chain[place].key)
        if chain[place].name not in {one.name for one in self.inputs.found}:
            self.inputs.between = chain[place + 1 :]
            self.inputs.look_again()
        return chain[place]

    def refuse_unknown(self, name: str) -> None:
        """Raise an error if rotated files lie there that nobody named, and nothing says whether they were read."""
        named = {one.name for one in self.inputs.found}
        for one in self.inputs.rotated(name):
            if named and one.name not in named and not self.seals.claims(one):
                problem = f"what was read of {name} is gone, and nothing says whether this file came after it"
                remedy = (
                    "if it did, name it as well, before the others; if not, move it away, or say that files which are "
                    "not named are done with gone_is_done (--gone-is-done)"
                )
                raise InputChangedError(problem, remedy, file=one.name)

    def may_be_gone(self, name: str) -> bool:
        """Whether a file that was named need not be there, since it was read or is being read."""
        if self.begun and self._options.follow:
            return True
        known = [self.name, *(seal.name for seal in self.seals.all)]
        return plain_name(name) in map(plain_name, known)

    def unread(self) -> Input | None:
        """The first file that is not done."""
        return next((one for one in self.inputs.found if not self.seals.holds(one)), None)

    def is_followed(self, source: Input, reader: Reader) -> bool:
        """Whether another file is to be read after the present one. What was copied from it is none."""
        for one in self.inputs.found:
            own = one.name == source.name or inode_of(one) == reader.inode or self.seals.holds(one)
            older = related(self.name, one.key) and age(one.key) < age(source.key)  # copies get the names of older logs
            if not own and not (older and (_is_half(one, source) or self._is_copy(one, reader))):
                return True
        return False

    def _is_copy(self, source: Input, reader: Reader) -> bool:
        """Whether a file begins with what was read of the present one; looked at once, unless it changes."""
        try:
            status = os.stat(source.name)
            if self._copies.get(source.name) != status:
                self.open(source, reader.position()()).close()
                self._copies[source.name] = status
        except (OSError, TableError):
            return False
        return True

    def find_copy(self, source: Input, reader: Reader) -> tuple[Input, Reader] | None:
        """Where the content of a file lies that was cut or written over; an error if it is nowhere."""
        place = reader.position()()
        for one in self.inputs.rotated(self.name):
            if one.name != source.name and not self.seals.claims(one):
                try:
                    held = one, self.open(one, place)
                except TableError:
                    continue
                self.look_between(self.name, partial(_is_at, one.name))
                return held
        if not self._options.gone_is_done:
            raise changed(source.name, "changed (it was cut or written over, and no copy of it is beside it)")
        return None

    def is_last(self, source: Input) -> bool:
        """Whether nothing but this file is left to be read."""
        self.inputs.look_again()
        return all(one.name == source.name or self.seals.holds(one) for one in self.inputs.found)


def _is_half(copy: Input, source: Input) -> bool:
    """Whether a file holds the beginning of another one and nothing else: a copy that is being made of it."""
    try:
        with open(copy.name, "rb") as one, open(source.name, "rb") as other:
            size = os.fstat(one.fileno()).st_size
            if size > os.fstat(other.fileno()).st_size:
                return False
            for start in (0, max(size - EDGE, 0)):
                one.seek(start)
                other.seek(start)
                if one.read(min(size, EDGE)) != other.read(min(size, EDGE)):
                    return False
    except OSError:
        return False
    return True


def _is_at(path: str, source: Input) -> bool:
    return source.name == path


def inode_of(source: Input) -> tuple[int, int] | None:
    """Device and inode of a file, or None if it is gone."""
    try:
        status = os.stat(source.name)
    except OSError:
        return None
    return status.st_dev, status.st_ino
