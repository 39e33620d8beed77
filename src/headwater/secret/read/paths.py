"""Which files are meant, in which order, and what is in them by their names."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.public.errors import TableError, UnreadableFileError
from headwater.secret.read.options import Options
from headwater.secret.read.zip_member import member

STANDARD_INPUT = "standard input"
StrPath = str | os.PathLike[str]

_FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".lz4": "lz4", ".zip": "zip"}
_UNFINISHED = (".tmp", ".part", "~")  # by custom, files that somebody is still writing


# What programs that rotate logs put behind a name: a count (1 is the newest), or a date.
_ROTATED = re.compile(r"(?P<base>.+\.[A-Za-z]+)[.\-_](?P<mark>\d[\d\-_.:T]*)")
_DATED = re.compile(r"(?P<stem>.+)[.\-_]\d[\d\-_T]*(?P<ending>\.[A-Za-z]+)")


def plain_name(name: str) -> str:
    """A name without the ending of a compression."""
    stem, suffix = os.path.splitext(name)
    return stem if suffix.lower() in _COMPRESSIONS else name


def base_name(name: str) -> str:
    """The name that a rotated file had before."""
    found = _ROTATED.fullmatch(plain_name(name))
    return found["base"] if found else plain_name(name)


def bases_of(name: str) -> list[str]:
    """The names that a rotated file may have had before: a mark behind the name, or a date before its ending."""
    dated = _DATED.fullmatch(plain_name(name))
    return [base_name(name)] + ([dated["stem"] + dated["ending"]] if dated else [])


def related(old: str, new: str) -> bool:
    """Whether rotation or compression may have made one name of the other.

    >>> related("a.csv", "a.csv.gz"), related("a.csv", "a.csv.2"), related("a.csv", "a-20240101.csv.gz")
    (True, True, True)
    >>> related("a-1.csv", "a-2.csv"), related("a.csv", "b.csv")
    (False, False)
    """
    return base_name(old) == base_name(new) or plain_name(old) in bases_of(new)[1:]


def age(name: str) -> tuple[str, int, int, str]:
    """A key that sorts names, and rotated logs before the log itself, oldest first.

    >>> sorted(["b.csv", "a.csv", "a.csv.1", "a.csv.10.gz", "a.csv.2"], key=age)
    ['a.csv.10.gz', 'a.csv.2', 'a.csv.1', 'a.csv', 'b.csv']
    """
    found = _ROTATED.fullmatch(plain_name(name))
    if not found:
        return plain_name(name), 2, 0, name
    mark = found["mark"]
    return (found["base"], 1, -int(mark), name) if mark.isdigit() and len(mark) < 6 else (found["base"], 0, 0, name)


@dataclass(frozen=True)
class Input:
    """One file, or standard input."""

    name: str
    """As it is called in errors."""
    path: Path | None
    """None for standard input and other pipes."""
    format: str
    compression: str | None
    delimiter: str

    @property
    def is_json(self) -> bool:
        """Whether records are objects of JSON, in lines or in an array."""
        return self.format in ("json", "jsonl")

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
        self.piped = any(map(is_pipe, self._paths))
        """Whether standard input or another pipe is meant."""
        if self.piped and len(self._paths) > 1:
            raise ValueError(
                "standard input (-) or a named pipe cannot be read together with anything else: join them into one pipe"
            )
        self.may_be_gone: Callable[[str], bool] = lambda name: False
        """Whether a file that was named need not be there: because its records were taken."""
        self.between: list[Input] = []
        """Rotated files that nobody named, and that came after what was read and before what is named."""
        self.found = list[Input]()
        self._beside: dict[str, list[tuple[str, str]]] | None = None
        self.named = set[str]()
        """The names of those that were given, or are in a folder that was given."""

    def look_again(self) -> None:
        """Find the files that are there now."""
        self._beside = None
        listed = [self._input(name) for path in self._paths for name in self._expand(path)]
        self.named = {source.name for source in listed}
        self.between = [one for one in self.between if one.name not in self.named and os.path.exists(one.name)]
        self.found = self.between + listed

    def look_first(self) -> None:
        """The same, and there must be something."""
        self.look_again()
        if not self.found and not self._options.follow and not any(map(self._is_gone, self._paths)):
            raise TableError("no files in this folder", "name a folder with files", file=self._paths[0])

    @property
    def only_folders(self) -> bool:
        """Whether nothing but folders was given, so that every file in them is named."""
        return all(map(os.path.isdir, self._paths))

    def rotated(self, name: str) -> list[Input]:
        """The files beside those that are named which may be later or earlier names of a file, oldest first."""
        self._beside = None
        return self.beside(name)

    def beside(self, name: str) -> list[Input]:
        """The same, as they were when `look_again` or `rotated` was called last: for many names at once."""
        if self._beside is None:
            self._beside = {}
            folders = {os.path.dirname(path) if not os.path.isdir(path) else path for path in self._paths}
            for folder in sorted(folders):
                with suppress(OSError):
                    for one in os.listdir(folder or "."):
                        for base in () if one.endswith(_UNFINISHED) else bases_of(one):
                            self._beside.setdefault(base, []).append((folder, one))
        found = {*self._beside.get(base_name(name), ()), *self._beside.get(plain_name(name), ())}
        there = sorted((folder, age(one), one) for folder, one in found if related(name, one))
        return [self._input(os.path.join(folder, one)) for folder, _, one in there]

    def _is_gone(self, path: str) -> bool:
        return not os.path.exists(path) and self.may_be_gone(os.path.basename(path))

    def _expand(self, path: str) -> list[str]:
        if path == "-":
            return [path]
        if self._is_gone(path):
            return []
        try:
            os.stat(path)
            if not os.path.isdir(path):
                return [path]
            names = [name for name in os.listdir(path) if not (name[0] == "." or name.endswith(_UNFINISHED))]
            names.sort(key=age)
        except OSError as error:
            raise refused(path, error) from None
        return [os.path.join(path, name) for name in names]

    def _input(self, path: str) -> Input:
        if path == "-":
            return Input(STANDARD_INPUT, None, self._options.format or "csv", None, self._options.delimiter or ",")
        stem, suffix = os.path.splitext(path.lower())
        compression = _COMPRESSIONS.get(suffix)
        if compression:
            stem, suffix = os.path.splitext(stem)
            if compression == "zip" and suffix not in _FORMATS and self._options.format is None:
                suffix = os.path.splitext(_member_name(path))[1]
        delimiter = self._options.delimiter or ("\t" if suffix == ".tsv" else ",")
        kind = self._options.format or _FORMATS.get(suffix)
        if kind is None and _ROTATED.fullmatch(stem + suffix):
            kind = _FORMATS.get(os.path.splitext(base_name(stem + suffix))[1])
        if os.path.isdir(path):
            raise TableError("a folder inside a folder", "name the inner folder itself", file=path)
        if kind is None:
            remedy = "say which format it has (input_format in the schema file), or call it .csv or .parquet"
            raise TableError("the name does not say what is in the file", remedy, file=path)
        if is_pipe(path):
            if not self.piped:
                raise TableError("a pipe inside a folder", "name the pipe itself", file=path)
            if compression:
                raise TableError("a compressed pipe", "decompress on the way into the pipe", file=path)
            return Input(path, None, kind, None, delimiter)
        if compression and kind in ("parquet", "arrow"):
            remedy = "decompress it first: such files are compressed inside"
            raise TableError("a compressed Parquet or Arrow file", remedy, file=path)
        return Input(path, Path(path), kind, compression, delimiter)


def is_pipe(path: str) -> bool:
    """Whether this is standard input or a named pipe, as of a shell's process substitution: read once, as it comes."""
    try:
        return path == "-" or stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def _member_name(path: str) -> str:
    try:
        return member(path)[0].lower()
    except TableError as error:
        raise error.at(file=path) from None
    except OSError as error:
        raise refused(path, error) from None


def refused(name: str, error: OSError) -> UnreadableFileError:
    """The error for a file that the operating system does not hand over."""
    match error:
        case FileNotFoundError():
            return UnreadableFileError("there is no such file", "check the path", file=name)
        case PermissionError():
            return UnreadableFileError(
                "no permission to read this", "ask its owner for the right to read it", file=name
            )
        case IsADirectoryError() | NotADirectoryError():
            return UnreadableFileError("a folder and a file are mixed up in this path", "check the path", file=name)
        case _:
            problem = f"the file cannot be read ({error.strerror})"
            return UnreadableFileError(problem, "see to the cause and try again", file=name)
