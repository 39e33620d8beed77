"""Is this a position that reading gave? Positions are kept in files, and a file may hold anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.table.errors import TableError
from headwater.table.readers.paths import Input

_LARGEST = 1 << 62


def check_position(position: Any, name: str) -> None:  # noqa: ANN401 - whatever was kept
    """Raise an error unless this says which files were read, and where the next one was left."""
    fits = isinstance(position, Mapping) and _count(position.get("records")) and isinstance(position.get("name"), str)
    finished = position.get("finished") if fits else None
    if not (isinstance(finished, list) and all(isinstance(mark, str) for mark in finished)):
        raise _unknown(name)
    if not isinstance(position.get("place"), Mapping):
        raise _unknown(name)


def check_file_position(position: Mapping[str, Any], source: Input) -> None:
    """Raise an error unless this is a position in such a file."""
    good = isinstance(position.get("sha256"), str)
    if source.format in ("parquet", "arrow"):
        good = good and _count(position.get("row"))
    else:
        header, end, line = (position.get(name) for name in ("header", "end", "line"))
        good = good and all(map(_count, (header, end, line))) and header <= end  # type: ignore[operator]
        if source.path is None:
            columns = position.get("columns", 0)
            names = columns is None or (isinstance(columns, list) and all(isinstance(name, str) for name in columns))
            good = good and names and isinstance(position.get("continued"), bool)
    good = good and _count(position.get("skip", 0))
    if good and position.get("skip", 0):
        problem = "the run was stopped inside a block by an older version, which this one cannot go on from"
        raise TableError(problem, "go on with the version that wrote the state, then upgrade", file=source.name)
    if not good:
        raise _unknown(source.name)


def _count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < _LARGEST


def _unknown(name: str) -> TableError:
    problem = "what was kept of an earlier run does not say where in the input it stopped"
    return TableError(problem, "put back the state as it was, or start a new run with a new state", file=name)
