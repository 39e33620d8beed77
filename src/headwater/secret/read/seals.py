"""Files that were read to their ends: what is kept of them, so that they are known again wherever they are.

A log that is rotated is the same file under another name, perhaps compressed. Names say which files may be the same
(`related`), contents say whether they are. A file that is done may also be gone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from headwater.secret.read.options import changed
from headwater.secret.read.paths import Input, age, base_name, bases_of, plain_name, related
from headwater.secret.read.stream import open_stream

_ENDLESS = 1 << 62
EDGE = 1 << 12
"""So many bytes of the beginning and of the end of a file are part of its digest."""


class Seal(NamedTuple):
    """A file that was read to its end."""

    name: str
    """Its name when it was read."""
    size: int
    """How many bytes there were, decompressed."""
    records: int
    """How many records were taken from it."""
    digest: str
    """Of its beginning and end."""
    free: int = 0
    """1 if it is known that the file was moved away, so that another one may have its name."""

    def matches(self, source: Input, encoding: str | None = None) -> bool:
        """Whether a file holds just what was read."""
        if source.path is None:
            return False
        if source.compression is None and self._matches_bytes(source.path):
            return True
        converted = encoding is not None or source.format == "json"  # then what was read is not what lies there
        return (source.compression is not None or converted) and self._matches_text(source, encoding)

    def _matches_bytes(self, path: Path) -> bool:
        try:
            with open(path, "rb") as file:
                if os.fstat(file.fileno()).st_size != self.size:
                    return False
                head = file.read(EDGE)
                file.seek(max(self.size - EDGE, 0))
                return edges_digest(head, file.read(EDGE)) == self.digest
        except OSError:
            return False

    def _matches_text(self, source: Input, encoding: str | None) -> bool:
        return text_edges(source, encoding, self.size) == (self.size, self.digest)


def text_edges(source: Input, encoding: str | None, most: int) -> tuple[int, str] | None:
    """Size and digest of the text of a file, decompressed; None if it is longer than ``most`` bytes or damaged."""
    head, tail, size = b"", b"", 0
    try:
        stream = open_stream(source, encoding)
        try:
            space = bytearray(1 << 20)
            while True:
                with memoryview(space) as view:
                    found = stream.read_into(view)
                if not found or size > most:
                    break
                head = (head + bytes(space[: min(found, EDGE)]))[:EDGE] if len(head) < EDGE else head
                tail = (tail + bytes(space[max(found - EDGE, 0) : found]))[-EDGE:]
                size += found
        finally:
            stream.close()
    except ValueError:  # damaged, or just being written
        return None
    return None if size > most else (size, edges_digest(head, tail))


def text_head(source: Input, encoding: str | None, most: int) -> bytes:
    """The first bytes of the text of a file, up to ``most`` and a few thousand."""
    space = bytearray(min(most, EDGE))
    at = 0
    try:
        stream = open_stream(source, encoding)
        try:
            with memoryview(space) as view:
                while at < len(space) and (found := stream.read_into(view[at:])):
                    at += found
        finally:
            stream.close()
    except ValueError:  # damaged, or just being written
        pass
    return bytes(space[:at])


def edges_at(source: Input, encoding: str | None, sizes: Collection[int]) -> dict[int, str]:
    """By number of bytes, the digest that a file would have if it ended there; only of numbers that it goes beyond."""
    head, tails, at = b"", dict.fromkeys(sizes, b""), 0
    try:
        stream = open_stream(source, encoding)
        try:
            space = bytearray(1 << 20)
            while at <= max(sizes, default=-1):
                with memoryview(space) as view:
                    found = stream.read_into(view)
                if not found:
                    break
                head += bytes(space[: min(found, EDGE - len(head))])
                for size in tails:
                    tails[size] += bytes(space[max(size - EDGE - at, 0) : min(max(size - at, 0), found)])
                at += found
        finally:
            stream.close()
    except ValueError:  # damaged, or just being written: what is before that counts
        pass
    return {size: edges_digest(head[:size], tail) for size, tail in tails.items() if size < at}


def edges_digest(head: bytes, tail: bytes) -> str:
    """A digest of the beginning and the end of a file; with its size it identifies a file of records."""
    return hashlib.sha256(head[:EDGE] + b"\0" + tail[-EDGE:]).hexdigest()[:16]


class Seals:
    """All files that a run has read to their ends.

    Parameters
    ----------
    kept
        What an earlier run kept of them.
    beside
        The files whose names rotation may have made of a name, or it of theirs, oldest first, where not all are read.
    gone_is_done
        Whether other content under the name of a file that was read is a new file, whatever became of the old one.
    encoding
        Of text.
    """

    def __init__(
        self,
        kept: Iterable[Any],
        beside: Callable[[str], list[Input]],
        *,
        gone_is_done: bool,
        encoding: str | None = None,
    ) -> None:
        self._beside, self._encoding = beside, encoding
        self.all = list[Seal]()
        self._kept: list[list[Any]] | None = None
        self._by_base: dict[str, list[int]] = {}
        for one in kept:
            self._append(Seal(*one))
        self._gone_is_done = gone_is_done
        self._seen: dict[str, tuple[int, int, int, int]] = {}  # paths of files that are done
        self._holders: dict[int, str] = {}  # by number of the seal, the path that holds its content
        self._numbers: dict[tuple[int, int], int] = {}  # by device and inode, the number of the seal that it holds

    def add(self, seal: Seal, source: Input | None) -> None:
        """Seal a file; ``source`` is where it lies now, if that is known.

        One without records is equal to many others: all of them are done as long as they are so.
        """
        status = _status(source) if source is not None else None
        known = not seal.records and self._is_empty(seal.name, lambda one: one[1:4] == seal[1:4])
        if not known:
            self._append(seal)
        if seal.records and source is not None and status is not None:
            self._hold(len(self.all) - 1, source, status)

    def _is_empty(self, name: str, is_it: Callable[[Seal], bool]) -> bool:
        """Whether a file that was read, has one of the names of this one, and had no records, is such a file."""
        numbers = (number for base in bases_of(name) for number in self._by_base.get(base, ()))
        return any(is_it(self.all[n]) for n in numbers if not self.all[n].records and related(self.all[n].name, name))

    def _hold(self, number: int, source: Input, status: tuple[int, int, int, int]) -> None:
        self._seen[source.name], self._holders[number], self._numbers[status[:2]] = status, source.name, number

    def _append(self, seal: Seal) -> None:
        self._by_base.setdefault(base_name(seal.name), []).append(len(self.all))
        self.all.append(seal)
        self._kept = None

    def reuse(self, name: str) -> None:
        """A new file is read under a name: whatever had it before was moved away, or is given up."""
        for number in self._by_base.get(base_name(name), ()):
            if plain_name(self.all[number].name) == plain_name(name):
                self.all[number] = self.all[number]._replace(free=1)
                self._kept = None

    def free_younger(self, name: str) -> None:
        """The newest file lies under a name that rotation gave it: what was read before it lies under older ones.

        So whatever has a younger name by now is another file, also if one that was read had that name.
        """
        for number in self._by_base.get(base_name(name), ()):
            if age(self.all[number].name)[:3] > age(name)[:3]:
                self.all[number] = self.all[number]._replace(free=1)
                self._kept = None

    def to_list(self) -> list[list[Any]]:
        """All seals as JSON."""
        if self._kept is None:
            self._kept = [list(seal if seal.free else seal[:4]) for seal in self.all]
        return self._kept

    def claims(self, source: Input) -> bool:
        """Whether a file holds just what was read of one that is done, and no other file does."""
        status = _status(source)
        if status is None:
            return False
        if self._seen.get(source.name) == status:
            return True
        if self._is_empty(source.key, lambda seal: self.matches(seal, source)):
            self._seen[source.name] = status
            return True
        number = self.find(source)
        if number is not None:
            self._hold(number, source, status)
        return number is not None

    def holds(self, source: Input) -> bool:
        """Whether a file is one that was read to its end, or is being made of one; an error if it cannot be known."""
        return self.claims(source) or self._is_being_made(source) or self._refused_or_new(source)

    def _is_being_made(self, source: Input) -> bool:
        """Whether this is half of a compressed file, beside the file that it is made of, which is done.

        Some programs compress in pieces that are whole by themselves: then half of a file holds a beginning of it.
        """
        twin = plain_name(source.name)
        if source.compression is None or twin not in self._seen or _status_of(twin) != self._seen[twin]:
            return False
        edges = text_edges(source, self._encoding, _ENDLESS)
        whole = replace(source, name=twin, path=Path(twin), compression=None)
        return edges is None or edges in edges_at(whole, self._encoding, {edges[0]}).items()

    def matches(self, seal: Seal, source: Input) -> bool:
        """Whether a file holds just what a seal says was read."""
        return seal.matches(source, self._encoding)

    def is_another(self, seal: Seal, source: Input) -> bool:
        """Whether a file was seen to hold another one of the files that are done."""
        status = _status(source)
        number = self._numbers.get(status[:2]) if status is not None else None
        return number is not None and self.all[number] is not seal and self.matches(self.all[number], source)

    def is_beginning(self, seal: Seal, source: Input) -> bool:
        """Whether a file begins with what a seal says was read, and goes on."""
        return (seal.size, seal.digest) in edges_at(source, self._encoding, {seal.size}).items()

    def outgrown(self, source: Input, least: int) -> Seal | None:
        """The file that was read to its end, got another name, and was then written to: this one begins with it.

        Files of fewer than ``least`` bytes are the beginning of many others: of them the inode must be the same too.
        """
        known = dict[tuple[int, str], Seal]()
        for number in (n for base in bases_of(source.key) for n in self._by_base.get(base, ())):
            seal = self.all[number]
            moved = related(seal.name, source.key) and plain_name(seal.name) != plain_name(source.key)
            known_by = seal.size >= least or self._is_renamed(number, source)
            if moved and seal.records and known_by and not self._is_elsewhere(number, source):
                known[seal.size, seal.digest] = seal
        found = edges_at(source, self._encoding, {size for size, _ in known}).items() if known else ()
        return next((known[one] for one in found if one in known), None)

    def _is_elsewhere(self, number: int, source: Input) -> bool:
        """Whether another file is the very one that a seal was seen in, and is as it was then."""
        holder = self._holders.get(number, source.name)
        status = _status_of(holder) if holder != source.name else None
        return status is not None and self._seen.get(holder) == status and self._numbers.get(status[:2]) == number

    def _is_renamed(self, number: int, source: Input) -> bool:
        """Whether a file is the very one that a seal was seen in, under another name than it was read."""
        status = _status(source)
        moved = plain_name(self.all[number].name) != plain_name(source.key)
        return moved and status is not None and self._numbers.get(status[:2]) == number

    def find(self, source: Input) -> int | None:
        """The number of the seal whose content a file holds, and no other file does."""
        numbers = sorted((n for base in bases_of(source.key) for n in self._by_base.get(base, ())), reverse=True)
        numbers = [n for n in numbers if self.all[n].records and related(self.all[n].name, source.key)]
        renamed = [n for n in numbers if self._is_renamed(n, source)]  # whatever has the name by now that it had
        if renamed and self.all[renamed[0]].matches(source, self._encoding):
            return renamed[0]
        for number in numbers:
            if self.all[number].matches(source, self._encoding):
                holder = self._holders.get(number, "")
                there = holder in self._seen and _status_of(holder) == self._seen[holder]
                twin = plain_name(holder) == plain_name(source.name)  # one may be compressed
                if twin if there else not self._is_in_older(number, source):
                    return number
        return None

    def _is_in_older(self, number: int, source: Input) -> bool:
        """Whether an older file, which nobody may have named, holds what a seal says was read: then that is the one."""
        for one in self._beside(self.all[number].name):
            status = _status(one)
            older = age(one.key) < age(source.key) and plain_name(one.name) != plain_name(source.name)
            new = status is not None and self._seen.get(one.name) != status
            if older and new and self.matches(self.all[number], one):
                return self.claims(one)
        return False

    def _refused_or_new(self, source: Input) -> bool:
        """False for a file that is new; an error for other content under the name of a file that was read."""
        self._seen.pop(source.name, None)
        numbers = self._by_base.get(base_name(source.key), [])
        same = [n for n in numbers if self.all[n].records and plain_name(self.all[n].name) == plain_name(source.key)]
        if not same or self._gone_is_done or self.all[same[-1]].free:
            return False
        holder = self._holders.get(same[-1])
        if holder is not None and holder != source.name and os.path.exists(holder):
            return False  # the old content is there under another name
        for one in self._beside(source.key):
            if one.name != source.name and self.claims(one) and self._holders.get(same[-1]) == one.name:
                return False
        raise changed(source.name, "was read to its end, and has changed or was replaced by another file")


def _status(source: Input) -> tuple[int, int, int, int] | None:
    return _status_of(source.name) if source.path is not None else None


def _status_of(path: str) -> tuple[int, int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
