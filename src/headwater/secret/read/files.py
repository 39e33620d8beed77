"""Which files are to be read, and which have been.

Files only grow. Those of a folder are read in the order of their names, each once. The last one may grow; all before
it are finished, and may be deleted or compressed then. Whatever else happens to a file that was read, is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwater.public.errors import TableError
from headwater.secret.read.fields import Options
from headwater.secret.read.lines import (
    DAMAGED,
    STANDARD_INPUT,
    WAYS_OUT,
    Input,
    InputChangedError,
    changed,
    refused,
    seal_of,
)

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
    stem, ending = os.path.splitext(name)
    if ending.lower() in _COMPRESSIONS:
        stem, ending = os.path.splitext(stem)
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
        self.given: str = "records" if isinstance(self._paths[0], Input) else self._paths[0]
        self.finished: dict[str, list[str]] = {}
        """The seals of finished files, by name: there may be several of one name, in several folders."""
        self.current = ""
        """The name of the file that is being read, or was read last."""
        self.beside: dict[str, int] = {}
        """The sizes of files that lie beside those, and might be taken for what became of them."""
        self._seals: dict[tuple[str, bool], tuple[Any, str]] = {}
        self._folders, self._unread = set[str](), set[str]()

    def look(self, seal: str = "") -> list[Input]:
        """The files that are there now and are not finished, in order; an error if one that was read has changed."""
        found = [one for path in self._paths for one in self._inputs(path)]
        if self.piped or isinstance(self._paths[0], Input):
            return found
        left = {name: list(seals) for name, seals in self.finished.items()}
        same = set[str]()
        for one in found:
            if one.key in left and (now := self._seal(one, text=False)) in left[one.key]:
                left[one.key].remove(now)
                same.add(one.name)
        names, unread = {one.key for one in found}, list[Input]()
        for one in found:
            if one.name in same:
                continue
            if left.get(one.key):
                raise changed(one.name, "was read to its end, and holds other records than were in it")
            fresh = one.key == self.current or not (self.current or left)
            if fresh or not self._is_compressed(one, names, seal):
                unread.append(one)
        self._unread = {one.key for one in unread}
        self.look_beside()
        return unread

    def look_beside(self, fresh: str = "") -> None:
        """Refuse what has appeared beside files that were read, but for a ``fresh`` one, whose neighbours are noted."""
        read = {*self.finished, self.current} - {""}
        stems: dict[str, list[str]] = {}
        for name in read:
            stems.setdefault(stem_of(name)[0], []).append(name)
        there, entries = dict[str, int](), list[os.DirEntry[str]]()
        for folder in self._folders if read else ():
            with suppress(OSError), os.scandir(folder or ".") as found:
                entries += found
        for entry in entries:
            name = entry.name
            if name in read or name[0] == "." or name.endswith(_UNFINISHED):
                continue
            same = [one for end in range(1, len(name) + 1) for one in stems.get(name[:end], ())]
            of = [one for one in same if is_beside(name, one)]
            if not of or not entry.is_file():
                continue
            with suppress(FileNotFoundError):
                there[name] = entry.stat().st_size
            known = self.beside.get(name) == there.get(name) or (name in self.beside and name in self._unread)
            if not known and of != [fresh]:
                problem = f"it has {'changed' if name in self.beside else 'appeared'} next to {of[0]}, which was read"
                raise InputChangedError(f"{problem}, and may hold records of it", WAYS_OUT, file=entry.path)
        self.beside = there

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
            if not seals or self._seal(source, text=True) in seals:
                return True
        except TableError as error:
            if self._options.follow and plain in names and error.problem == DAMAGED.problem:
                return True  # it is being made
            raise
        raise changed(source.name, "has the name of a file that was read to its end, and holds other records")

    def _seal(self, source: Input, *, text: bool) -> str:
        """The seal of a file, or of its text; looked at once, unless it changes."""
        try:
            now = os.stat(source.name)
        except OSError as error:
            raise refused(source.name, error) from None
        status = (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
        known = self._seals.get((source.name, text))
        if known is None or known[0] != status:
            known = self._seals[source.name, text] = status, seal_of(source, text=text)
        return known[1]

    def _inputs(self, path: str | Input) -> list[Input]:
        """What a path names: a file, standard input, or the files of a folder."""
        if isinstance(path, Input):
            return [path]
        if path == "-":
            return [Input(STANDARD_INPUT, None, self._options.format or "csv", None, self._options.delimiter or ",")]
        if self.piped:
            return [self._input(path, pipe=True)]
        folder = os.path.isdir(path)
        self._folders.add(path if folder else os.path.dirname(path))
        if os.path.basename(path) in self.finished and not os.path.exists(path):
            return []
        try:
            os.stat(path)
            names = [one for one in sorted(os.listdir(path)) if one[0] != "."] if folder else []
        except OSError as error:
            raise refused(path, error) from None
        if not folder:
            return [self._input(path)]
        here = os.path.realpath(path)
        inside = [os.path.join(path, one) for one in names if not one.endswith(_UNFINISHED)]
        # a link to a file of the folder is no other file
        own = [one for one in inside if not os.path.islink(one) or os.path.dirname(os.path.realpath(one)) != here]
        for one in own:
            if os.path.isdir(one):
                raise TableError("a folder inside a folder", "name the inner folder itself", file=one)
            if is_pipe(one):
                raise TableError("a pipe inside a folder", "name the pipe itself", file=one)
        return [self._input(one) for one in own]

    def _input(self, path: str, *, pipe: bool = False) -> Input:
        options, (stem, suffix) = self._options, os.path.splitext(path.lower())
        compression = _COMPRESSIONS.get(suffix)
        parts = os.path.basename(stem if compression else path.lower()).split(".")[1:]
        while len(parts) > 1 and parts[-1][:1].isdigit():
            parts.pop()
        ending = f".{parts[-1].split('-')[0]}" if parts else ""
        kind = options.format or _FORMATS.get(ending)
        if kind is None:
            remedy = "give it an ending such as .csv or .parquet, or declare input_format in the schema file"
            raise TableError("the name does not say what is in the file", remedy, file=path)
        if compression and pipe:
            raise TableError("a compressed pipe", "decompress on the way into the pipe", file=path)
        if compression and kind in ("parquet", "arrow"):
            raise TableError("a compressed Parquet or Arrow file", "decompress it first", file=path)
        delimiter = options.delimiter or ("\t" if ending == ".tsv" else ",")
        if pipe:
            return Input(path, None, kind, None, delimiter)
        return Input(path, Path(path), kind, compression, delimiter, key=os.path.basename(path))


def is_pipe(path: str) -> bool:
    try:
        return path == "-" or stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False
