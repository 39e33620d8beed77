"""Which files are to be read, and which have been.

Files only grow. Those of a folder are read in the order of their names, each once. The last one may grow; all before
it are finished, and may be deleted or compressed then. Whatever else happens to a file that was read, is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwater.public.errors import TableError
from headwater.secret.read.lines import (
    DAMAGED,
    STANDARD_INPUT,
    WAYS_OUT,
    Input,
    InputChangedError,
    WholeFile,
    changed,
    refused,
    seal_of,
)
from headwater.secret.read.options import Options

StrPath = str | os.PathLike[str]
Paths = StrPath | Sequence[StrPath] | Input

_FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json"}
_FORMATS |= {".parquet": "parquet", ".pq": "parquet"}
_FORMATS |= dict.fromkeys((".arrow", ".arrows", ".ipc", ".feather"), "arrow")
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".lz4": "lz4"}
_UNFINISHED = (".tmp", ".part", "~")  # by custom, files that somebody is still writing


def plain_name(name: str) -> str:
    stem, suffix = os.path.splitext(name)
    return stem if suffix.lower() in _COMPRESSIONS else name


def stem_of(name: str) -> tuple[str, str]:
    stem, ending = os.path.splitext(plain_name(name))
    return (stem + ending, "") if ending[1:2].isdigit() else (stem, ending)


def is_beside(name: str, of: str) -> bool:
    """Whether a file may be another one, or part of it, that was renamed or copied: something is added to its name."""
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
        return "records" if isinstance(self._paths[0], Input) else self._paths[0]

    @property
    def whole(self) -> bool:
        return not self.piped and all(isinstance(path, Input) or os.path.exists(path) for path in self._paths)

    def look(self, seal: str = "") -> list[Input]:
        """The files that are there now and are not finished, in order; an error if one that was read has changed."""
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
                        f"it has {'changed' if name in self.beside else 'appeared'} next to {of[0]}, which was read"
                    )
                    raise InputChangedError(f"{problem}, and may hold records of it", WAYS_OUT, file=entry.path)
        self.beside = there

    def begin(self, source: Input) -> None:
        self.current = source.key
        self.look_beside(fresh=source.key)

    def finish(self, source: Input, seal: str) -> None:
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
    if seal not in seals:
        return False
    seals.remove(seal)
    return True


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder or ".") as entries:
        yield from entries


def _endings(name: str) -> list[str]:
    parts = os.path.basename(name).split(".")[1:]
    while len(parts) > 1 and parts[-1][:1].isdigit():
        parts.pop()
    return [f".{part.split('-')[0]}" for part in parts[-1:]]


def _leads_into(path: str, folder: str) -> bool:
    return os.path.islink(path) and os.path.dirname(os.path.realpath(path)) == folder


def is_pipe(path: str) -> bool:
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
