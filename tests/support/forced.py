"""Runs of cascade whose published numbers are chosen beforehand: what still differs was decided by raw data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from headwater.public.cascade.counts import NoisyCounts
from headwater.public.cascade.plan import Timescale
from headwater.public.cascade.tree import Tree
from headwater.public.laws import IntegerLaplace, scale_for
from headwater.public.protocol import Span
from headwater.secret import cascade as cascade_module
from headwater.secret.cascade import TIMESCALE_BIT, TREE_BIT, CascadeMechanism
from headwater.secret.leaves import count_leaves
from headwater.secret.noise import Noise

Integers = NDArray[np.int64]
Trees = tuple[Tree, ...]
Fault = Callable[[pytest.MonkeyPatch], None]
Publisher = Callable[["Draw", Tree], Integers]


@dataclass(frozen=True, eq=False)
class Draw:
    """One call for noise."""

    scale: float
    start: int
    timescale: int
    resolution: int
    leaves: tuple[int, ...]

    @staticmethod
    def of(scale: float, hi: ArrayLike, lo: ArrayLike) -> Draw:
        los: list[int] = np.asarray(lo, np.uint64).tolist()
        tree = los[0] >> TREE_BIT  # leaves of another tree would have numbers out of range
        leaves = tuple(lo - (tree << TREE_BIT) for lo in los)
        timescale, resolution = divmod(tree, 1 << TIMESCALE_BIT - TREE_BIT)
        return Draw(scale, int(np.asarray(hi)), timescale, resolution, leaves)


@dataclass(frozen=True, eq=False)
class Seen:
    """A tree of one bucket: the true counts of its leaves, and what was published instead."""

    draw: Draw
    tree: Tree
    true: Integers
    published: Integers

    @property
    def place(self) -> tuple[int, int, int]:
        return self.draw.start, self.draw.timescale, self.draw.resolution


class Forced(Noise):
    """Noise that makes the published counts come out as chosen beforehand, whatever was counted; or no noise at all."""

    def __init__(self, publish: Publisher | None) -> None:
        super().__init__(0)
        self.publish, self.counted, self.seen = publish, list[tuple[Tree, Integers]](), list[Seen]()

    def laplace_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        draw = Draw.of(scale, hi, lo)
        tree, true = self.counted.pop()
        published = self.publish(draw, tree) if self.publish else true
        self.seen.append(Seen(draw, tree, true, published))
        return published - true


@contextmanager
def watching(noise: Forced) -> Iterator[pytest.MonkeyPatch]:
    """Shows what is counted to the noise."""

    def counting(cells: NDArray[Any], depth: int, tree: Tree) -> Integers:
        true = count_leaves(cells, depth, tree)
        noise.counted.append((tree, true))
        return true

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cascade_module, "count_leaves", counting)
        yield patch


@lru_cache(maxsize=1 << 12)
def shape(tree: Tree) -> bytes:
    return b"|".join(np.packbits(split).tobytes() + bytes([len(split) % 256]) for split in tree.splits)


def cells_of(mechanism: CascadeMechanism, span: Span) -> tuple[NDArray[Any], int]:
    """The records of a bucket as cells, in order of arrival, and the depth of these."""
    return np.concatenate(mechanism._held.within(span)[0])[:, 0], mechanism._deepest(mechanism.stage)


# --- planted faults ---------------------------------------------------------------------------------------


def half_the_noise(patch: pytest.MonkeyPatch) -> None:
    """A replaced point moves two counts; this pays for one."""
    half = property(lambda scale: IntegerLaplace(scale_for(scale.epsilon / scale.resolutions)))
    patch.setattr(Timescale, "noise", half)


def tree_of_raw_counts(patch: pytest.MonkeyPatch) -> None:
    """Half of the trees are left unsplit where the first point of the bucket is low."""
    measure = CascadeMechanism._measure

    def peeking(self: CascadeMechanism, number: int, span: Span, trees: Trees) -> NoisyCounts:
        (cells, *_), depth = cells_of(self, span)
        bare = Tree((np.zeros(1, dtype=bool),))
        return measure(self, number, span, tuple(bare for _ in trees) if cells < 1 << (depth - 1) else trees)

    patch.setattr(CascadeMechanism, "_measure", peeking)
