"""Which process this is. A forked child is another one, even if a namespace gives it the number of its parent."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]

_TYPES = {"<i8", "<i4", "<u2", "<u4", "<u8", "<f8", "|u1"}
_DIGEST = 32


class FileRefusedError(ValueError):
    """A file that is not what it should be: cut short, altered, of another kind or of a newer version."""


def write_whole(
    path: str | os.PathLike[str],
    pieces: Iterable[bytes | memoryview],
    *,
    mode: int,
    read: os.stat_result | None = None,
) -> None:
    """Write bytes to a file: a reader sees the old content or the new one, never a half, also after a crash."""
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder {path.parent} does not exist")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        if read is not None and _version(path.stat()) != _version(read):
            raise FileRefusedError(f"{path}: somebody has written this file since it was read; give the command again")
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync(path.parent)


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def pack(banner: str, header: Mapping[str, object], arrays: Arrays) -> bytes:
    return b"".join(list(pieces(banner, header, arrays)))  # at once: a large state is copied once


def pieces(banner: str, header: Mapping[str, object], arrays: Arrays) -> Iterator[bytes | memoryview]:
    plain = {name: np.ascontiguousarray(a, dtype=a.dtype.newbyteorder("<")) for name, a in arrays.items()}
    layout = [[name, a.dtype.str, list(a.shape)] for name, a in plain.items()]
    pieces: list[bytes | memoryview] = [f"{banner}\n{json.dumps({**header, 'arrays': layout})}\n".encode()]
    digest = hashlib.sha256()
    for piece in pieces + [array.data.cast("B") for array in plain.values() if array.size]:
        digest.update(piece)
        yield piece
    yield digest.digest()


def _sizes(shape: list[Any]) -> list[int]:
    if not all(type(size) is int and 0 <= size < 1 << 62 for size in shape):
        raise ValueError("a shape is made of whole numbers")  # −1 would mean: all that is left
    return shape


def read(path: str | os.PathLike[str], banner: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    if Path(path).is_dir():
        raise FileRefusedError(f"{path}: this is a folder, not a {banner.split(':')[0]} file")
    return unpack(Path(path).read_bytes(), banner, str(path))


def unpack(data: bytes, banner: str, path: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    start = banner.encode() + b"\n"
    if not data.startswith(start):
        kind = banner.split(":")[0]
        raise FileRefusedError(f"{path}: this is not a {kind} file (or one of a newer version of Headwater)")
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        raise FileRefusedError(f"{path}: the checksum does not match: the file was cut short or altered")
    line, _, content = body[len(start) :].partition(b"\n")
    try:
        header = json.loads(line)
        arrays, offset = {}, 0
        for name, kind, shape in header.pop("arrays"):
            if kind not in _TYPES:
                raise FileRefusedError(f"{path}: array {name!r} has a type that Headwater does not write")
            count = math.prod(_sizes(shape))
            arrays[name] = np.frombuffer(content, dtype=kind, count=count, offset=offset).reshape(shape)
            offset += arrays[name].nbytes
    except FileRefusedError:
        raise
    except Exception as error:
        raise FileRefusedError(f"{path}: the header cannot be read; Headwater did not write this file") from error
    return header, arrays


def need(fits: bool, name: str) -> None:
    if not fits:
        raise FileRefusedError(f"{name!r} does not fit the rest; Headwater did not write this file, or it was altered")


def whole_number(value: object, name: str) -> int:
    need(isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60, name)
    return int(value)  # type: ignore[call-overload, no-any-return]


@contextmanager
def assembling(path: str) -> Iterator[None]:
    try:
        yield
    except FileRefusedError as error:
        raise FileRefusedError(f"{path}: {error}") from error.__cause__
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise FileRefusedError(f"{path}: its parts do not fit together; Headwater did not write this file") from error


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_forks = [0]  # between the first process and this one


def this_process() -> tuple[int, int]:
    return os.getpid(), _forks[0]  # the number as well: what is not Python may fork without saying so


def _in_child() -> None:
    _forks[0] += 1


os.register_at_fork(after_in_child=_in_child)
