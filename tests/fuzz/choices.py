"""Random choices that are read from bytes, so that a coverage-guided fuzzer decides them."""

from __future__ import annotations

from random import Random


class Choices(Random):
    """A `Random` whose answers are the given bytes, and zeros after the last of them.

    Whatever makes inputs from a `Random` can then be fuzzed: bytes that reach new code are kept and changed a little,
    which changes a few of the choices and leaves the others as they were.

    Parameters
    ----------
    data
        What the fuzzer proposes.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._left = memoryview(data)

    def getrandbits(self, k: int, /) -> int:
        """The next ``k`` bits, from whole bytes."""
        size = -(-k // 8)
        taken, self._left = self._left[:size], self._left[size:]
        return int.from_bytes(taken, "little") & ((1 << k) - 1)

    def random(self) -> float:
        """A number in [0, 1) from two bytes."""
        return self.getrandbits(16) / 65536
