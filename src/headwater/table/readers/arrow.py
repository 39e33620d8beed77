"""pyarrow, imported when a file is read: the core of Headwater does without it."""

from __future__ import annotations

import importlib
from types import ModuleType


def arrow(part: str = "") -> ModuleType:
    """The module ``pyarrow`` or a part of it, such as ``arrow("csv")``."""
    try:
        return importlib.import_module(f"pyarrow.{part}" if part else "pyarrow")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "reading files needs pyarrow, which is not installed: pip install 'headwater[cli]'", name="pyarrow"
        ) from error
