"""Planted faults: each breaks the promise in one way, as small as possible."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from headwater import synthesizer as synthesizer_module
from headwater.mechanisms.cascade import measure as cascade_module
from headwater.mechanisms.cascade import plan as plan_module
from headwater.mechanisms.cascade.estimate import round_in_order
from headwater.mechanisms.cascade.leaf_counts import count_leaves
from headwater.mechanisms.cascade.measure import CascadeMechanism
from headwater.mechanisms.cascade.noisy_counts import NoisyCounts
from headwater.mechanisms.cascade.plan import Stage, Timescale
from headwater.mechanisms.cascade.tree import Tree
from headwater.mechanisms.paper import measure as paper_module
from headwater.noise import Noise
from headwater.privacy import scale_for
from headwater.release.release import Release
from headwater.synthesizer import Synthesizer
from headwater.table.unit_cube import UnitCube

Integers = NDArray[np.int64]
Trees = tuple[Tree, ...]
Fault = Callable[[pytest.MonkeyPatch], None]


def half_the_noise(patch: pytest.MonkeyPatch) -> None:
    draw = Noise.laplace_at
    patch.setattr(Noise, "laplace_at", lambda self, scale, hi, lo: draw(self, scale / 2, hi, lo))


def half_the_noise_in_a_plan(patch: pytest.MonkeyPatch) -> None:
    scale = Timescale.scale.func  # type: ignore[attr-defined]
    patch.setattr(Timescale, "scale", property(lambda speed: scale(speed) / 2))


def sensitivity_of_one(patch: pytest.MonkeyPatch) -> None:
    """A replaced point moves two counts; this pays for one."""
    patch.setattr(Timescale, "scale", property(lambda speed: scale_for(speed.epsilon / speed.resolutions)))


def a_budget_that_does_not_sum(patch: pytest.MonkeyPatch) -> None:
    """Every speed spends a tenth more than its share."""
    find = plan_module.stage_at

    def generous(t: int, dimension: int, epsilon: float) -> Stage:
        stage = find(t, dimension, epsilon)
        return replace(stage, speeds=tuple(replace(s, epsilon=1.1 * s.epsilon) for s in stage.timescales))

    patch.setattr(plan_module, "stage_at", generous)
    patch.setattr(cascade_module, "stage_at", generous)


def noise_reused_between_levels(patch: pytest.MonkeyPatch) -> None:
    address = paper_module._address
    patch.setattr(paper_module, "_address", lambda purpose, level, index=0: address(purpose, 0, index))


def bucket_ends_by_data(patch: pytest.MonkeyPatch) -> None:
    """A bucket that begins with a high point is closed when it is half full."""
    take = CascadeMechanism.take

    def hasty(self: CascadeMechanism, cells: NDArray[np.uint64]) -> None:
        if len(cells) and self.t == self.start and int(cells[0]) >> (self.finest - 1):
            slow, *fast = self.stage.timescales
            self.stage = replace(self.stage, speeds=(replace(slow, size=slow.size // 2), *fast))
        take(self, cells)

    patch.setattr(CascadeMechanism, "take", hasty)


def bounds_from_data(patch: pytest.MonkeyPatch) -> None:
    """A batch is stretched to fill the cube."""
    encode = UnitCube.encode

    def learned(self: UnitCube, points: object) -> NDArray[np.float64]:
        array = encode(self, points)
        low, high = array.min(axis=0, initial=1.0), array.max(axis=0, initial=0.0)
        stretched: NDArray[np.float64] = np.clip((array - low) / np.maximum(high - low, 1e-9), 0, 1)
        return stretched

    patch.setattr(UnitCube, "encode", learned)


def a_count_without_noise(patch: pytest.MonkeyPatch) -> None:
    """The last leaf of every tree is published as it is."""
    measure = CascadeMechanism._measure

    def leaking(self: CascadeMechanism, speed: int, start: int, trees: Trees) -> NoisyCounts:
        summary = measure(self, speed, start, trees)
        size = self.stage.timescales[speed].size
        cells = self._cells[start - self.start : start - self.start + size]
        counts = summary.counts.copy()
        counts[-1] = count_leaves(cells, self._kept, summary.tree)[-1]
        return replace(summary, counts=counts)

    patch.setattr(CascadeMechanism, "_measure", leaking)


def noise_drawn_anew_after_load(patch: pytest.MonkeyPatch) -> None:
    load = Synthesizer.from_bytes.__func__  # type: ignore[attr-defined]

    def forgetful(cls: type[Synthesizer], data: bytes) -> Synthesizer:
        synth: Synthesizer = load(cls, data)
        synth._measure.noise = Noise(key=hashlib.sha256(synth._measure.noise.key).digest())
        return synth

    patch.setattr(Synthesizer, "from_bytes", classmethod(forgetful))


def _real(self: Noise, scale: float, hi: ArrayLike, lo: ArrayLike) -> NDArray[np.float64]:
    size = np.broadcast(np.atleast_1d(hi), np.atleast_1d(lo)).shape
    return np.random.default_rng(list(self.key)).laplace(scale=scale, size=size)


def truncated_noise(patch: pytest.MonkeyPatch) -> None:
    """Real Laplace noise with its fraction cut off: zero comes twice as often as it should."""
    patch.setattr(Noise, "laplace_at", lambda *args: np.trunc(_real(*args)).astype(np.int64))


def clipped_noise(patch: pytest.MonkeyPatch) -> None:
    """No draw is further out than four scales: the ends are possible on one stream only."""
    draw = Noise.laplace_at

    def clipped(self: Noise, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        return np.clip(draw(self, scale, hi, lo), -round(4 * scale), round(4 * scale))

    patch.setattr(Noise, "laplace_at", clipped)


def a_constant_seed(patch: pytest.MonkeyPatch) -> None:
    """Every run has the same key."""
    start = Noise.__init__
    patch.setattr(Noise, "__init__", lambda self, seed=None, *, key=None: start(self, 0))


def rounding_by_raw_counts(patch: pytest.MonkeyPatch) -> None:
    """Which way counts are rounded depends on the points of the open bucket."""
    build = synthesizer_module._from_summaries

    def peeking(measured: CascadeMechanism, *rest: Any) -> Release:  # noqa: ANN401 - handed on as they are
        offset = int(measured._cells[: measured.t - measured.start].sum()) % 97 / 97
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(
                synthesizer_module, "round_in_order", lambda mass, total, _: round_in_order(mass, total, offset)
            )
            return build(measured, *rest)

    patch.setattr(synthesizer_module, "_from_summaries", peeking)


def error_from_raw_data(patch: pytest.MonkeyPatch) -> None:
    """The expected error knows how many points of the open bucket are high."""
    build = synthesizer_module._from_summaries

    def knowing(measured: CascadeMechanism, *rest: Any) -> Release:  # noqa: ANN401 - handed on as they are
        release = build(measured, *rest)
        high = int((measured._cells[: measured.t - measured.start] >> (measured._kept - 1)).sum())
        return replace(release, spread=(release.spread or 0.0) + high)

    patch.setattr(synthesizer_module, "_from_summaries", knowing)


def an_uncounted_boundary_point(patch: pytest.MonkeyPatch) -> None:
    """Points on the upper face are counted in no cell."""

    def exclusive(cells: NDArray[Any], depth: int, tree: Tree) -> Integers:
        return count_leaves(cells[cells < (1 << depth) - 1], depth, tree)

    patch.setattr(cascade_module, "count_leaves", exclusive)


def trees_from_raw_counts(patch: pytest.MonkeyPatch) -> None:
    """Nothing is split if the first point of the bucket is high."""
    grow = CascadeMechanism._grow

    def peeking(self: CascadeMechanism, speeds: Sequence[Timescale], fast: list[NoisyCounts]) -> list[Trees]:
        found = grow(self, speeds, fast)
        high = self.t > self.start and int(self._cells[0]) >> (self._kept - 1)
        bare = Tree((np.zeros(1, dtype=bool),))
        return [tuple(bare for _ in trees) for trees in found] if high else found

    patch.setattr(CascadeMechanism, "_grow", peeking)
