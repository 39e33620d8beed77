"""Digests of numbers: of values and shapes alone, whatever classes and types of array hold them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def digest(*what: Any) -> str:  # noqa: ANN401 - anything made of numbers and texts
    """Of arrays, numbers, texts, sequences and mappings, in this order; mappings by key."""
    hashed = hashlib.sha256()
    for part in _parts(what):
        hashed.update(len(part).to_bytes(8, "little") + part)
    return hashed.hexdigest()[:16]


def _parts(what: Any) -> Iterator[bytes]:  # noqa: ANN401
    if isinstance(what, np.ndarray):
        yield from _of_array(what)
    elif isinstance(what, Mapping):
        for key in sorted(what):
            yield str(key).encode()
            yield from _parts(what[key])
    elif isinstance(what, list | tuple):
        yield b"%d parts" % len(what)
        for part in what:
            yield from _parts(part)
    else:
        yield repr(what.item() if isinstance(what, np.generic) else what).encode()


def _of_array(array: NDArray[Any]) -> Iterator[bytes]:
    yield repr(array.shape).encode()
    kind = array.dtype.kind
    if kind == "M":
        array = array.astype("datetime64[us]")
    if kind in "biuM" and not (kind == "u" and array.size and int(array.max()) >> 63):
        yield array.astype("<i8").tobytes()
    elif kind in "uf":
        yield (array + 0).astype(f"<{kind}8").tobytes()  # there is one zero
    else:
        yield from _parts(array.tolist())
