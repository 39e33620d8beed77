"""Which file a source is reading, under whatever name it has now: files that rotate, come and go."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headwater.public.errors import TableError
from headwater.secret.read.columnar import ColumnarFile
from headwater.secret.read.fields import Fields
from headwater.secret.read.options import InputChangedError, Options, changed
from headwater.secret.read.paths import Input, Inputs, StrPath, age, plain_name, related
from headwater.secret.read.positions import check_file_position
from headwater.secret.read.same_again import outgrown, refuse_half, refuse_outgrown, refuse_same
from headwater.secret.read.seals import EDGE, Seal, Seals, text_head
from headwater.secret.read.text_file import FilePosition, TextFile

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
        self.seals = self._seals(())
        self.name = ""
        """Of the file that is being read, when it was opened first."""
        self.begun = False
        """Whether any file was read."""
        self.last: tuple[Seal, tuple[int, int] | None] | None = None
        """The file that was read to its end last, and its inode, if that is known."""
        self._looked: tuple[Any, Input | None] | None = None
        self._copies: dict[str, os.stat_result] = {}

    def _seals(self, kept: Iterable[Any]) -> Seals:
        options = self._options
        beside = (lambda name: []) if self.inputs.only_folders else self.inputs.beside  # all in a folder are looked at
        return Seals(kept, beside, gone_is_done=options.gone_is_done, encoding=options.encoding)

    def restore(self, sealed: list[Any], last: Sequence[int] | None = None) -> None:
        """Know the files that an earlier run has read to their ends, and the inode of the last of them."""
        self.seals = self._seals(sealed)
        done = [seal for seal in self.seals.all if seal.records]
        if done:
            self.last = done[-1], (last[0], last[1]) if last else None

    def finish(self, seal: Seal, inode: tuple[int, int], where: Input | None) -> None:
        """Seal a file that was read to its end; ``where`` it lies now, if that is known."""
        self.seals.add(seal, where)
        self.name = ""
        if seal.records or where is not None:
            self.last = seal, inode

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
        if self.last is None and self.seals.all:  # files without records: nothing says what came between them and this
            self.refuse_unknown(source.key)
        reader = self.open(source, None)
        if self.last and related(self.last[0].name, source.key):
            self.inputs.look_again()
            self.look_after_last()
            first = self.unread()
            if first is None or inode_of(first) != reader.inode:
                reader.close()
                return None
        return source, reader

    def find_held(
        self, place: FilePosition, inode: Sequence[int] | None
    ) -> tuple[tuple[Input, Reader] | None, TableError | None]:
        """The file that holds what was read of the present one; or what is wrong with the one that has its name.

        Another log may begin with the same records. The inode says which one it is, unless an older file may be a copy
        of it: then it may have been cut since, or its inode may have gone to a new file. Where all of them are named,
        all are read, and it makes no difference of which of them so many records are left out.
        """
        named = self.inputs.named
        alike = sorted(self._alike(), key=lambda one: age(one.key))
        itself = [one for one in alike if inode and inode_of(one) == tuple(inode) and self._is_as_compressed(one)]
        held, error = None, None
        for one in [*itself, *(one for one in alike if one not in itself)]:
            all_read = held is not None and {one.name, held[0].name} <= named
            if held and held[0] in itself:
                if self._options.same_again or not self._may_be_copy(one, held[0], place):
                    continue
            elif all_read or (one not in itself and one.name in named and self.seals.claims(one)):
                continue
            try:
                reader = self.open(one, place)
            except InputChangedError as changed_since:
                if plain_name(one.key) == plain_name(self.name):
                    error = error or changed_since
                continue
            if held is None and (one in itself or not self.seals.claims(one)):
                held = one, reader
            elif held is None or plain_name(one.name) == plain_name(held[0].name) or self.seals.claims(one):
                reader.close()  # done, or compressed beside the same file, as they are for a while
            else:
                held[1].close()
                if not all_read:
                    reader.close()
                    raise _several(self.name, held[0], one)
                held = one, reader  # the older one
        if held:
            self._look_behind(self.name, held[0])
        return held, error

    def _alike(self) -> list[Input]:
        """The files that may be the present one, under this name or another."""
        names = {one.name for one in self.inputs.found}
        beside = [one for one in self.inputs.rotated(self.name) if one.name not in names]
        return [one for one in [*self.inputs.found, *beside] if related(self.name, one.key)]

    def _is_as_compressed(self, source: Input) -> bool:
        """Whether a file is compressed exactly if the present one is; otherwise it cannot be the same."""
        return (plain_name(source.key) == source.key) == (plain_name(self.name) == self.name)

    def _may_be_copy(self, source: Input, held: Input, place: FilePosition) -> bool:
        """Whether a file is older by its name, begins like another one, and is no mere beginning of it."""
        if age(source.key) >= age(held.key) or "row" in place:
            return False
        head = text_head(held, self._options.encoding, place["end"])
        same = text_head(source, self._options.encoding, place["end"]) == head
        return same and not _is_half(source, held)

    def find_unread(self, inode: Sequence[int] | None, since: int) -> None:
        """Find the rotated files that nobody named and that came after what was read, where no file is being read.

        If the present one was opened, and nothing was read of it, only its ``inode`` says which one it is. That may
        have gone to a new file: not if all older ones were last written before ``since``, when the present one was.
        """
        if self.look_after_last() is not None or self._options.gone_is_done:
            return
        present = [one for one in self._alike() if inode and inode_of(one) == tuple(inode)]
        present = [one for one in present if self._is_as_compressed(one)]
        if present:
            self.refuse_unknown(self.name, older=present[0], since=since)
            self._look_behind(self.name, present[0], itself=True)
        elif self.name or self.seals.all:
            self.refuse_unknown(self.name or self.seals.all[-1].name)

    def look_after_last(self) -> Input | None:
        """Where the file lies that was read last; rotated files after it will be read as well."""
        if self.last is None or self.inputs.only_folders:
            return None
        chain = self.inputs.rotated(self.last[0].name)
        if all(one.name in self.inputs.named for one in chain):
            return None
        seen = (self.last, [(one.name, inode_of(one)) for one in chain])
        if self._looked is None or self._looked[0] != seen:  # contents are compared once for each rotation
            self._looked = seen, self.find_done(*self.last)
        return self._looked[1]

    def find_done(self, seal: Seal, inode: tuple[int, int] | None) -> Input | None:
        """Where a file lies that was read to its end; rotated files that came after it will be read as well.

        It has its inode, or holds what was read and was not seen to be another file that is done.
        """
        chain = self.inputs.rotated(seal.name)
        found = [one for one in chain if inode and inode_of(one) == inode]
        found = [one for one in found if not seal.records or self.seals.matches(seal, one)]
        if not found and seal.records:
            found = [one for one in chain if self.seals.matches(seal, one) and not self.seals.is_another(seal, one)]
            named = self.inputs.named
            others = [one for one in found if plain_name(one.name) != plain_name(found[0].name)]
            if others and any(one.name not in named for one in found):
                raise _several(seal.name, found[0], others[0])
        if found:
            self._look_behind(seal.name, found[0])
        return found[0] if found else None

    def _look_behind(self, name: str, source: Input, *, itself: bool = False) -> None:
        """Read the rotated files that came after one that nobody has named, and perhaps this one too, as if named."""
        self.seals.free_younger(source.key)
        if source.name not in self.inputs.named:
            chain = self.inputs.rotated(name)
            place = next((number for number, one in enumerate(chain) if one.name == source.name), len(chain))
            self.inputs.between = chain[place + (not itself) :]
            self.inputs.look_again()

    def refuse_grown(self) -> None:
        """Raise an error if the file that was read last, and was renamed then, was written to after that."""
        if self.last is None:
            return
        seal, inode = self.last
        for one in self.inputs.rotated(seal.name):
            renamed = inode and inode_of(one) == inode and plain_name(one.key) != plain_name(seal.name)
            if renamed and self.seals.is_beginning(seal, one):
                raise outgrown(one.name, seal)

    def refuse_unknown(self, name: str, older: Input | None = None, since: int = 0) -> None:
        """Raise an error if rotated files lie there that nobody named, and nothing says whether they were read.

        Only ``older`` ones than a file, if it is given, and that were written to ``since``. Not files without records.
        """
        named = {one.name for one in self.inputs.found}
        for one in self.inputs.rotated(name):
            asked = one.name not in named and (older is None or age(one.key) < age(older.key))
            if named and asked and written(one) >= since and not self.seals.claims(one):
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

    def next(self) -> Input | None:
        """The first file that is not done, of all that are there now."""
        self.inputs.look_again()
        source = self.unread()
        if self.last and (source is None or related(self.last[0].name, source.key)):
            self.look_after_last()
            return self.unread()
        return source

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
        """Whether a file begins with what was read of the present one; looked at once, unless it changes.

        If nothing was read, every file does: the present one may have been cut, and this one hold all its records.
        """
        if nothing_read(reader.position()()):
            return False
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
                self._look_behind(self.name, one)
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


def nothing_read(place: Mapping[str, Any]) -> bool:
    """Whether a position is before the first record of its file."""
    return not place.get("row") and place.get("end", 0) <= place.get("header", 0)


def _several(name: str, one: Input, other: Input) -> InputChangedError:
    """The error where a file of a log cannot be told from another one."""
    problem = f"this file and {other.name} both hold what was read of {name}, and nothing says which of them it was"
    remedy = (
        "move the one that it was not elsewhere for one run; and read the folder of such logs, where none is left out"
    )
    return InputChangedError(problem, remedy, file=one.name)


def written(source: Input) -> int:
    """When a file was last written to, in nanoseconds; 0 if it is gone."""
    try:
        return os.stat(source.name).st_mtime_ns
    except OSError:
        return 0


def inode_of(source: Input) -> tuple[int, int] | None:
    """Device and inode of a file, or None if it is gone."""
    try:
        status = os.stat(source.name)
    except OSError:
        return None
    return status.st_dev, status.st_ino
