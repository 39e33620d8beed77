"""Is this a position that reading gave? Positions are kept in files, and a file may hold anything."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headwater.public.errors import TableError
from headwater.secret.read.columnar import ColumnarFile
from headwater.secret.read.fields import Fields
from headwater.secret.read.options import InputChangedError, Options, changed
from headwater.secret.read.paths import Input
from headwater.secret.read.seals import Seal, edges_digest
from headwater.secret.read.text_file import TextFile

_LARGEST = 1 << 62


def check_position(position: Any, name: str) -> None:  # noqa: ANN401 - whatever was kept
    """Raise an error unless this says which files were read, and where the next one was left."""
    fits = isinstance(position, Mapping) and _count(position.get("records")) and isinstance(position.get("name"), str)
    if not fits or not isinstance(position.get("place"), Mapping):
        raise _unknown(name)
    place = position["place"]
    numbers = ("row",) if "row" in place else ("header", "end", "line")
    if place and not (all(_count(place.get(key)) for key in numbers) and place.get("header", 0) <= place.get("end", 0)):
        raise _unknown(name)
    if "finished" in position:
        finished = position["finished"]
        good = isinstance(finished, list) and all(isinstance(mark, str) for mark in finished)
    else:
        sealed = position.get("sealed")
        good = isinstance(sealed, list) and all(map(_is_seal, sealed)) and _count(position.get("taken", 0))
        good = good and ("done" not in position or _is_seal(position["done"]))
        good = good and _count(position.get("since", 0))
        for inode in (position.get("inode", []), position.get("last", [])):
            good = good and isinstance(inode, list) and len(inode) in (0, 2) and all(isinstance(n, int) for n in inode)
    if not good:
        raise _unknown(name)


def _is_seal(kept: object) -> bool:
    if not isinstance(kept, list) or not 4 <= len(kept) <= 5:
        return False
    name, size, records, digest, *free = kept
    return isinstance(name, str) and isinstance(digest, str) and all(map(_count, (size, records, *free)))


def old_seals(
    position: Mapping[str, Any], found: Sequence[Input], fields: Fields, options: Options
) -> Iterator[tuple[Seal, Input]]:
    """The files that a position of an older version calls finished: they must be there once more, in their order."""
    for number, known in enumerate(position["finished"]):
        if number >= len(found):
            file = found[-1].name if found else "the input"
            problem = "a file that was read before is gone, and the state is of an older version"
            raise InputChangedError(problem, "put it back for the first run of this version", file=file)
        source = found[number]
        columnar = source.format in ("parquet", "arrow")
        reader = (ColumnarFile if columnar else TextFile)(source, fields, options)
        try:
            digest = reader.digest_to_end() if isinstance(reader, TextFile) else reader.digest
            if hashlib.sha256(f"{source.key}\n{digest}".encode()).hexdigest()[:16] != known:
                raise changed(source.name, "changed, or another file stands in its place,")
            size, head, tail = reader.edges
        finally:
            reader.close()
        yield Seal(source.key, size, 1, edges_digest(head, tail)), source  # some records: they were not counted


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
