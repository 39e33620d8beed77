"""Which files are meant, in which order, and what is in them by their names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.table.errors import TableError
from headwater.table.readers.options import Options, changed
from headwater.table.readers.zip_member import member

StrPath = str | os.PathLike[str]

_FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",  # lines, or one array: that shows at its first character
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".lz4": "lz4", ".zip": "zip"}
_UNFINISHED = (".tmp", ".part", "~")  # by custom, files that somebody is still writing


@dataclass(frozen=True)
class Input:
    """One file, or standard input."""

    name: str
    """As it is called in errors."""
    path: Path | None
    """None for standard input."""
    format: str
    compression: str | None
    delimiter: str

    @property
    def key(self) -> str:
        """What a position remembers it by: folders may move, names may not."""
        return self.path.name if self.path else "-"


class Inputs:
    """The files that some paths stand for. A folder stands for its files in the order of their names."""

    def __init__(self, paths: StrPath | Sequence[StrPath], options: Options) -> None:
        given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        self._paths = [os.fspath(path) for path in given]
        self._options = options
        if not self._paths:
            raise ValueError("name at least one file")
        if "-" in self._paths and len(self._paths) > 1:
            raise ValueError("standard input (-) cannot be read together with files")
        self.found = self._list()
        if not self.found and not options.follow:
            raise TableError("no files in this folder", "name a folder with files", file=self._paths[0])

    def look_again(self) -> None:
        """Find new files. They must come after the ones that are known."""
        known, found = self.found, self._list()
        if found[: len(known)] != known:
            old = set(known)
            early = next((one for one in found[: len(known)] if one not in old), None)
            if early is None:
                gone = next(one for one in known if one not in set(found))
                raise changed(gone.name, "was removed")
            remedy = "give new files names that sort after those that are there"
            raise TableError("a new file, but files after it were read already", remedy, file=early.name)
        self.found = found

    def _list(self) -> list[Input]:
        return [self._input(name) for path in self._paths for name in self._expand(path)]

    def _expand(self, path: str) -> list[str]:
        if path == "-":
            return [path]
        try:
            os.stat(path)
            if not os.path.isdir(path):
                return [path]
            names = sorted(name for name in os.listdir(path) if not (name[0] == "." or name.endswith(_UNFINISHED)))
        except OSError as error:
            raise refused(path, error) from None
        return [os.path.join(path, name) for name in names]

    def _input(self, path: str) -> Input:
        if path == "-":
            return Input("standard input", None, self._options.format or "csv", None, self._options.delimiter or ",")
        stem, suffix = os.path.splitext(path.lower())
        compression = _COMPRESSIONS.get(suffix)
        if compression:
            stem, suffix = os.path.splitext(_member_name(path) if compression == "zip" else stem)
        delimiter = self._options.delimiter or ("\t" if suffix == ".tsv" else ",")
        kind = self._options.format or _FORMATS.get(suffix)
        if os.path.isdir(path):
            raise TableError("a folder inside a folder", "name the inner folder itself", file=path)
        if kind is None:
            remedy = "say which format it has (format=, --input-format), or give it an ending such as .csv or .parquet"
            raise TableError("the name does not say what is in the file", remedy, file=path)
        if compression and kind in ("parquet", "arrow"):
            remedy = "decompress it first: such files are compressed inside"
            raise TableError("a compressed Parquet or Arrow file", remedy, file=path)
        return Input(path, Path(path), kind, compression, delimiter)


def _member_name(path: str) -> str:
    try:
        return member(path)[0].lower()
    except TableError as error:
        raise error.at(file=path) from None
    except OSError as error:
        raise refused(path, error) from None


def refused(name: str, error: OSError) -> TableError:
    """The error for a file that the operating system does not hand over."""
    match error:
        case FileNotFoundError():
            return TableError("there is no such file", "check the path", file=name)
        case PermissionError():
            return TableError("no permission to read this", "ask its owner for the right to read it", file=name)
        case IsADirectoryError() | NotADirectoryError():
            return TableError("a folder and a file are mixed up in this path", "check the path", file=name)
        case _:
            problem = f"the file cannot be read ({error.strerror})"
            return TableError(problem, "see to the cause and try again", file=name)
