"""Is this a position that reading gave? Positions are kept in files, and a file may hold anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.table.errors import TableError
from headwater.table.readers.paths import Input

_FARTHEST = 1 << 62


def check_position(position: Any, name: str) -> None:  # noqa: ANN401 - whatever was kept
    """Raise an error unless this says which files were read, and where the next one was left."""
    fits = isinstance(position, Mapping) and _count(position.get("records")) and isinstance(position.get("name"), str)
    finished = position.get("finished") if fits else None
    if not (isinstance(finished, list) and all(isinstance(mark, str) for mark in finished)):
        raise _unknown(name)
    place = position.get("place")
    skip = place.get("skip", 0) if isinstance(place, Mapping) else None
    if not (_count(skip) and skip <= position["records"]):
        raise _unknown(name)


def check_place(place: Mapping[str, Any], source: Input) -> None:
    """Raise an error unless this is a place in such a file."""
    good = isinstance(place.get("sha256"), str)
    if source.format in ("parquet", "arrow"):
        good = good and _count(place.get("row"))
    else:
        header, start, end, line, skip = (place.get(name) for name in ("header", "start", "end", "line", "skip"))
        good = good and all(map(_count, (header, start, end, line, skip))) and header <= start <= end  # type: ignore[operator]
        if source.path is None:
            columns = place.get("columns", 0)
            names = columns is None or (isinstance(columns, list) and all(isinstance(name, str) for name in columns))
            good = good and names and isinstance(place.get("continued"), bool)
    if not good:
        raise _unknown(source.name)


def _count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < _FARTHEST


def _unknown(name: str) -> TableError:
    problem = "what was kept of an earlier run does not say where in the input it stopped"
    return TableError(problem, "put back the state as it was, or start a new run with a new state", file=name)
