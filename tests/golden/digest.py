"""Digests of numbers and texts, whatever classes and types of array hold them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np


def digest(*what: Any) -> str:  # noqa: ANN401 - arrays, sequences, mappings, numbers, texts
    """Of all of it, in order; of mappings by key."""
    return hashlib.sha256(repr(_plain(what)).encode()).hexdigest()[:16]


def _plain(what: Any) -> Any:  # noqa: ANN401
    if isinstance(what, np.ndarray | np.generic):
        return _plain(what.tolist()) if what.dtype == object else what.tolist()
    if isinstance(what, Mapping):
        return [[name, _plain(what[name])] for name in sorted(what)]
    return [_plain(part) for part in what] if isinstance(what, list | tuple) else what
