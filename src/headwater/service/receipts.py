"""Answers to writers, by idempotency key: so that a retry is answered as the first time and counted once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

MOST = 1 << 20
"""How many keys are remembered at least."""

_CHUNK = 1 << 16
_RECORD = np.dtype([("key", "S16"), ("body", "S16"), ("accepted", "<u8"), ("t", "<u8")])


class Receipt(NamedTuple):
    """What was answered to one request: how many records were accepted, and the ``t`` they ended at."""

    key: bytes
    body: bytes
    accepted: int
    t: int

    def to_bytes(self) -> bytes:
        """As a run keeps it: 48 bytes."""
        return self.key + self.body + self.accepted.to_bytes(8, "little") + self.t.to_bytes(8, "little")


def digest(*parts: bytes) -> bytes:
    """Sixteen bytes that stand for a key or a body; none of them is zero at the end, which arrays would drop."""
    made = hashlib.sha256()
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()[:15] + b"\x01"


class Receipts:
    """The last million or more receipts, in sorted blocks: 48 bytes each. Not safe between threads."""

    def __init__(self, kept: Iterable[bytes] = ()) -> None:
        self._blocks: list[np.ndarray] = []
        self._recent: dict[bytes, Receipt] = {}
        data = b"".join(kept)
        every = np.frombuffer(data[: len(data) - len(data) % _RECORD.itemsize], _RECORD)
        for start in range(0, len(every), _CHUNK):
            self._add_block(every[start : start + _CHUNK])

    def __len__(self) -> int:
        return sum(map(len, self._blocks)) + len(self._recent)

    def find(self, key: bytes) -> Receipt | None:
        """What was answered under a key."""
        if key in self._recent:
            return self._recent[key]
        for block in reversed(self._blocks):
            at = int(np.searchsorted(block["key"], key))
            if at < len(block) and block["key"][at] == key:
                found = block[at]
                return Receipt(key, bytes(found["body"]), int(found["accepted"]), int(found["t"]))
        return None

    def add(self, receipt: Receipt) -> None:
        """Remember an answer."""
        self._recent[receipt.key] = receipt
        if len(self._recent) >= _CHUNK:
            data = b"".join(found.to_bytes() for found in self._recent.values())
            self._recent = {}
            self._add_block(np.frombuffer(data, _RECORD))

    def _add_block(self, block: np.ndarray) -> None:
        self._blocks.append(block[np.argsort(block["key"], kind="stable")])
        while len(self) - len(self._blocks[0]) >= MOST:
            del self._blocks[0]
