"""How much of bodies may be in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.service.problems import ProblemError


class Admission:
    """Reserves room for bodies before they are read. Used in one loop only."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.reserved = 0

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Reserve room while a body is read and its records are taken; a 429 if there is none."""
        if self.reserved and self.reserved + size > self._most:
            raise ProblemError(429, "too much is being sent; send this again in a moment", {"Retry-After": "1"})
        self.reserved += size
        try:
            yield
        finally:
            self.reserved -= size
