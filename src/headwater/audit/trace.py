"""Runs in which the auditor decides what is published, and sees what would have been protected by noise.

While `watching`, a draw of noise is an array that waits to be added to true counts. When that happens the true counts
are written down, and the sum is whatever the auditor has chosen for these addresses. So two neighbouring streams can
be made to publish the very same numbers, and everything that still differs was decided by raw data. Nothing of a
mechanism's inside is used: only that it draws from `headwater.secret.noise.Noise` and adds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwater.public.laws import CountLaw, DiscreteGaussian, IntegerLaplace, JointLaplace
from headwater.secret.noise import Noise

Integers = NDArray[np.int64]
Address = tuple[bytes, int, int]  # key, upper half, lower half
Law = CountLaw | JointLaplace
Chooser = Callable[[Address], int]
BEYOND = 1 << 20  # more than any count, and beyond every threshold


def beyond(_: Address) -> int:
    return BEYOND


@dataclass(frozen=True, eq=False)
class Measurement:
    """One call for noise: its law, where the draws live, and the true counts that they were added to."""

    law: Law
    addresses: tuple[Address, ...]
    true: Integers
    sizes: tuple[int, ...] = ()  # of the tables that share joint noise


class _Waiting(np.ndarray[Any, Any]):
    """Noise that was asked for and not yet added to anything."""

    asked: tuple[Law, tuple[Address, ...], tuple[int, ...], list[Measurement]] | None = None

    def __array_finalize__(self, obj: object) -> None:
        if isinstance(obj, _Waiting) and self.size == obj.size:
            self.asked = obj.asked

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:  # noqa: ANN401
        plain = [np.asarray(x).view(np.ndarray) if isinstance(x, _Waiting) else x for x in inputs]
        if ufunc is np.add and method == "__call__" and self.asked and self.size == len(self.asked[1]):
            law, addresses, sizes, record = self.asked
            (counts,) = [x for x in inputs if not isinstance(x, _Waiting)] or [0]
            true = np.broadcast_to(np.asarray(counts, dtype=np.int64), self.shape).copy()
            record.append(Measurement(law, addresses, true.reshape(-1), sizes))
            result = np.array(plain[0 if isinstance(inputs[0], _Waiting) else 1])  # what was chosen
        else:
            result = getattr(ufunc, method)(*plain, **kwargs)
        if out is not None:
            out[0][...] = result
            return out[0]
        return result


@contextmanager
def watching(choose: Chooser = beyond) -> Iterator[list[Measurement]]:
    record: list[Measurement] = []

    def waiting(key: bytes, law: Law, hi: ArrayLike, lo: ArrayLike, sizes: tuple[int, ...] = ()) -> Integers:
        his, los = np.broadcast_arrays(np.asarray(hi, np.uint64), np.asarray(lo, np.uint64))
        pairs = zip(np.atleast_1d(his).tolist(), np.atleast_1d(los).tolist(), strict=True)
        addresses = tuple((key, h, low) for h, low in pairs)
        noise = np.array([choose(address) for address in addresses], dtype=np.int64).view(_Waiting)
        noise.asked = law, addresses, sizes, record
        return noise

    def laplace(self: Noise, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        return waiting(self.key, IntegerLaplace(scale), hi, lo)

    def gaussian(self: Noise, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        return waiting(self.key, DiscreteGaussian(scale), hi, lo)

    def jointly(self: Noise, scale: float, sizes: Sequence[int], hi: int, los: Sequence[int]) -> Integers:
        numbers = [lo + number for size, lo in zip(sizes, los, strict=True) for number in range(size)]
        return waiting(self.key, JointLaplace(scale), hi, numbers, tuple(sizes))

    with ExitStack() as stack:
        for name, drawn in (("laplace_at", laplace), ("gaussian_at", gaussian), ("jointly_at", jointly)):
            stack.enter_context(patch.object(Noise, name, drawn))
        yield record
