"""Files that grow by whole frames: each with its length and a checksum, on the disk before the next one is written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from headwater.public.files import FileRefusedError, pack, unpack

_LENGTH = 8


class Frame(NamedTuple):
    """What was written at once, where it ends in the file, and its checksum."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    end: int
    checksum: str


def framed(banner: str, header: Mapping[str, object], arrays: Mapping[str, NDArray[Any]] | None = None) -> bytes:
    packed = pack(banner, header, arrays or {})
    return len(packed).to_bytes(_LENGTH, "little") + packed


def read_frames(path: Path, data: bytes, banner: str) -> Iterator[Frame]:
    """All whole frames; what a kill has left half-written at the end is none."""
    at = 0
    while at + _LENGTH <= len(data):
        length = int.from_bytes(data[at : at + _LENGTH], "little")
        end = at + _LENGTH + length
        if not length or end > len(data):  # zeros are what a loss of power leaves of bytes that were not synced
            break
        try:
            header, arrays = unpack(data[at + _LENGTH : end], banner, str(path))
        except FileRefusedError:
            if at and end == len(data):  # its length is on the disk and its content is not
                return
            raise
        yield Frame(header, arrays, end, data[end - 32 : end].hex())
        at = end
    if data and not at:
        raise FileRefusedError(f"{path}: this is not a file of {banner.split(':')[0]}, or only its beginning")


def append(handle: int, end: int, frame: bytes) -> None:
    """Write a frame behind the first ``end`` bytes of a file, and bring it to the disk."""
    os.ftruncate(handle, end)  # what a kill has left half-written
    view, at = memoryview(frame), end
    while view:
        written = os.pwrite(handle, view, at)
        view, at = view[written:], at + written
    os.fsync(handle)
