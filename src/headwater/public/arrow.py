"""pyarrow, imported when it is needed: the core of Headwater does without it."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray


def pyarrow(part: str = "") -> ModuleType:
    """The module ``pyarrow`` or a part of it, such as ``pyarrow("csv")``."""
    try:
        return importlib.import_module(f"pyarrow.{part}" if part else "pyarrow")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "reading and writing files needs pyarrow, which is not installed: pip install 'headwater[cli]'",
            name="pyarrow",
        ) from error


def from_numpy(raw: NDArray[Any], missing: NDArray[np.bool_] | None) -> Any:  # noqa: ANN401 - a pyarrow.Array
    """NumPy's memory as Arrow's, without Arrow's own way from NumPy: that one would import pandas."""
    pa = pyarrow()
    bits = raw.dtype.kind == "b"
    there = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    data = np.packbits(raw, bitorder="little") if bits else np.ascontiguousarray(raw)
    return pa.Array.from_buffers(
        pa.bool_() if bits else pa.from_numpy_dtype(raw.dtype), len(raw), [there, pa.py_buffer(data)]
    )
