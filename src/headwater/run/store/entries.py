"""Journal entries and snapshots as checksummed rows of the database, and back."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.run.store.database import digest
from headwater.run.store.errors import damaged

Rows = NDArray[np.unsignedinteger[Any]]
Position = dict[str, Any]
"""Named JSON values, kept in the same transaction as the records that they belong to."""

UNFIT = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError)
"""What can be raised when parts are put together that do not belong together."""

PART = 1 << 26  # SQLite takes blobs below 1 GB: a snapshot is kept in parts
_UNSIGNED = re.compile(r"\|u1|<u[248]")


class Entry(NamedTuple):
    """Some records and the positions that were kept with them; ``start`` records came before."""

    start: int
    rows: Rows
    position: Position
    counts: NDArray[np.int64] | None = None
    whole: bool = False

    @property
    def end(self) -> int:
        return self.start + (len(self.rows) if self.counts is None else int(self.counts.sum()))

    def between(self, first: int, end: int) -> Entry:
        """The records from number ``first`` on, before number ``end``; all of them if they are to be taken at once."""
        if self.whole:
            if first > self.start:
                raise ValueError("a part of records that were counted to be taken at once")
            return self
        first = max(first, self.start)
        if self.counts is None:
            return self._replace(start=first, rows=self.rows[first - self.start : max(end - self.start, 0)])
        ends = self.start + np.cumsum(self.counts, dtype=np.int64)
        part = np.minimum(ends, end) - np.maximum(ends - self.counts.astype(np.int64), first)
        return self._replace(start=first, rows=self.rows[part > 0], counts=part[part > 0])


class Snapshot(NamedTuple):
    """A mechanism's state at ``t``, and the merged positions of that time."""

    t: int
    data: bytes
    position: Position


class Kept(NamedTuple):
    """What a state holds: with ``journal`` on top of ``snapshot`` the run is at ``t``."""

    snapshot: Snapshot | None
    journal: list[Entry]
    position: Position
    t: int


def check_rows(rows: object) -> Rows:
    array = np.ascontiguousarray(rows)
    if array.dtype.kind != "u" or array.ndim != 2:
        raise TypeError(f"rows must be a two-dimensional array of unsigned integers, not {array.ndim}-d {array.dtype}")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def pack_entry(entry: Entry, receipts: bytes = b"") -> tuple[str, memoryview, bytes]:
    """Head, data and checksum of a journal entry."""
    head = json.dumps(
        {
            "from": entry.start,
            "to": entry.end,
            "dtype": entry.rows.dtype.str,
            "shape": entry.rows.shape,
            "position": entry.position,
            # Under another name if it is whole, so that no older version cuts it.
            **({} if entry.counts is None else {"whole" if entry.whole else "counts": _shortest(entry.counts)}),
            **({"receipts": base64.b64encode(receipts).decode()} if receipts else {}),
        }
    )
    data = entry.rows.data.cast("B") if entry.rows.size else memoryview(b"")
    if entry.counts is not None:
        data = memoryview(b"".join((data, entry.counts.astype(_shortest(entry.counts)).tobytes())))
    return head, data, digest(head.encode(), data)


def unpack_entry(path: Path, head: str, data: bytes, checksum: bytes) -> Entry:
    """The journal entry that `pack_entry` packed."""
    if digest(head.encode(), data) != checksum:
        raise damaged(path, "a part of the journal does not match its checksum")
    fields = json.loads(head)
    start, end, shape = fields["from"], fields["to"], fields["shape"]
    if not all(type(size) is int and 0 <= size < 1 << 62 for size in (start, *shape)) or len(shape) != 2:
        raise ValueError("sizes and times are whole numbers")
    if not _UNSIGNED.fullmatch(fields["dtype"]):
        raise ValueError("rows are unsigned integers")
    counts, position, whole = None, dict(fields["position"]), "whole" in fields
    if whole or "counts" in fields:
        word = fields["whole" if whole else "counts"]
        if not _UNSIGNED.fullmatch(word):
            raise ValueError("counts are unsigned integers")
        size = len(data) - np.dtype(word).itemsize * shape[0]
        counts = np.frombuffer(data, dtype=word, offset=size).astype(np.int64)
        data = data[:size]
        if counts.size and not 0 < int(counts.min()) <= int(counts.max()) < 1 << 53:
            raise ValueError("a row stands for at least one record")
    entry = Entry(start, np.frombuffer(data, dtype=fields["dtype"]).reshape(shape), position, counts, whole)
    if type(end) is not int or end != entry.end:
        raise ValueError("rows and counts say how many records there are")
    return entry


def _shortest(counts: NDArray[np.int64]) -> str:
    largest = int(counts.max(initial=0))
    return "|u1" if largest < 1 << 8 else "<u4" if largest < 1 << 32 else "<u8"


def receipts_in(head: Mapping[str, Any]) -> bytes:
    return base64.b64decode(head.get("receipts", ""), validate=True)


def pack_snapshot(snapshot: Snapshot) -> list[tuple[int, bytes | memoryview, bytes]]:
    view = memoryview(snapshot.data)
    parts = [view[start : start + PART] for start in range(0, len(view), PART)]
    head = json.dumps({"t": snapshot.t, "position": snapshot.position, "parts": len(parts)}).encode()
    return [(i, part, digest(str(i).encode(), part)) for i, part in enumerate([memoryview(head), *parts])]


def unpack_snapshot(path: Path, parts: list[tuple[int, bytes, bytes]]) -> Snapshot | None:
    """The snapshot that `pack_snapshot` packed; ``None`` if there are no parts."""
    if not parts:
        return None
    for number, data, checksum in parts:
        if digest(str(number).encode(), data) != checksum:
            raise damaged(path, "the snapshot does not match its checksum")
    head = json.loads(parts[0][1])
    if head["parts"] != len(parts) - 1 or [number for number, _, _ in parts] != list(range(len(parts))):
        raise damaged(path, "a part of the snapshot is missing")
    t, position = head["t"], dict(head["position"] or {})
    if type(t) is not int or t < 0:
        raise ValueError("t is a whole number")
    position.pop("by", None)  # format 1 kept the version here
    return Snapshot(t, b"".join(data for _, data, _ in parts[1:]), position)


def join(path: Path, start: int, entries: Iterable[Entry]) -> list[Entry]:
    """The entries after ``start`` without a gap; the first may begin before it, and is then cut."""
    found, t = list[Entry](), start
    for entry in entries:
        if entry.start > t or (found and entry.start != t):
            raise damaged(path, "a part of the journal is missing")
        if entry.start < t < entry.end:
            entry = entry.between(t, entry.end)
        if entry.end > t:
            found.append(entry)
        t = max(t, entry.end)
    return found


def merge(position: Position, changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if value is None:
            position.pop(name, None)
        else:
            position[name] = value
