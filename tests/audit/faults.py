"""Planted faults: each breaks the promise in one way, as small as possible."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from headwater import state as synthesizer_state
from headwater.audit import cases
from headwater.public import cells as cell_model
from headwater.public import laws as joint_law
from headwater.public.budget import Budget, Ledger
from headwater.public.cascade import plan as plan_module
from headwater.public.cascade.counts import NoisyCounts
from headwater.public.cascade.history import History, Measured, Trees
from headwater.public.cascade.model import CascadeModel
from headwater.public.cascade.plan import Stage, Timescale
from headwater.public.cascade.tree import LEAF, Tree
from headwater.public.cells import round_in_order
from headwater.public.cube import UnitCube
from headwater.public.laws import IntegerLaplace, deviation_for, scale_for
from headwater.public.protocol import Span
from headwater.secret import bucket as bucket_module
from headwater.secret import cascade as cascade_module
from headwater.secret import noise as joint_noise
from headwater.secret import paper as paper_module
from headwater.secret.batch import Batch
from headwater.secret.cascade import CascadeMechanism
from headwater.secret.held import Held, Part
from headwater.secret.leaves import count_leaves
from headwater.secret.noise import Noise

Integers = NDArray[np.int64]
POINTS = joint_law.log_points
Fault = Callable[[pytest.MonkeyPatch], None]


def half_the_noise(patch: pytest.MonkeyPatch) -> None:
    draw = Noise.laplace_at
    patch.setattr(Noise, "laplace_at", lambda self, scale, hi, lo: draw(self, scale / 2, hi, lo))


def half_the_joint_noise(patch: pytest.MonkeyPatch) -> None:
    draw = Noise.jointly_at
    patch.setattr(Noise, "jointly_at", lambda self, scale, *where: draw(self, scale / 2, *where))


def joint_noise_that_forgets_a_table(patch: pytest.MonkeyPatch) -> None:
    """Its radius is that of all tables but the largest."""
    real = joint_law.radii
    patch.setattr(joint_noise, "radii", lambda scale, sizes: real(scale, sizes[:-1]))


def radii_without_points(patch: pytest.MonkeyPatch) -> None:
    """A radius is as likely as its exponential says, however many points there are."""
    patch.setattr(joint_law, "log_points", lambda size, m: 0.0 * m)
    patch.setattr(joint_noise, "radii", cache(joint_law.Radii))


def small_balls(patch: pytest.MonkeyPatch) -> None:
    """Tables have an L1 norm of at most the radius, instead of twice as much."""
    real = joint_law.with_nonzero
    for module in (joint_law, joint_noise):
        patch.setattr(module, "with_nonzero", lambda size, sum_, j: real(size, sum_ // 2, j))
    subset = joint_noise.Bits.subset
    patch.setattr(joint_noise.Bits, "subset", lambda self, n, of: subset(self, n, of // 2 if of % 2 == 0 else of))
    patch.setattr(joint_law, "log_points", lambda size, m: POINTS(size, m if size == 1 else m / 2))
    patch.setattr(joint_noise, "radii", cache(joint_law.Radii))


def joint_noise_at_half_its_cost(patch: pytest.MonkeyPatch) -> None:
    """Marginals pay for half of what a record moves."""
    patch.setattr(bucket_module, "scale_for", lambda cost: scale_for(2 * cost))


def a_small_sigma(patch: pytest.MonkeyPatch) -> None:
    """Gaussian noise of half the deviation."""
    draw = Noise.gaussian_at
    patch.setattr(Noise, "gaussian_at", lambda self, scale, hi, lo: draw(self, scale / 2, hi, lo))


def a_small_sigma_in_a_plan(patch: pytest.MonkeyPatch) -> None:
    """Pays for one of the two counts that a replaced record moves."""
    nobody_adds_up(patch)
    patch.setattr(plan_module, "deviation_for", lambda rho: deviation_for(2 * rho))


def a_timescale_that_is_not_composed(patch: pytest.MonkeyPatch) -> None:
    """The slow timescale takes all of ρ, and the others their part of it once more."""
    nobody_adds_up(patch)
    divided = plan_module.with_law

    def greedy(scales: tuple[Timescale, ...], budget: Budget) -> tuple[Timescale, ...]:
        slow, *faster = divided(scales, budget)
        return replace(slow, rho=budget.rho), *faster

    patch.setattr(plan_module, "with_law", greedy)


def a_cut_tail(patch: pytest.MonkeyPatch) -> None:
    """No Gaussian draw is further out than two deviations."""
    draw = Noise.gaussian_at

    def cut(self: Noise, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        return np.clip(draw(self, scale, hi, lo), -round(2 * scale), round(2 * scale))

    patch.setattr(Noise, "gaussian_at", cut)


def a_loose_conversion(patch: pytest.MonkeyPatch) -> None:
    """ε is taken for √(2ρ), the deviation of its logarithm, as if there were no tail beyond it."""
    patch.setattr(cases, "rho_for", lambda epsilon, delta: Fraction(epsilon) ** 2 / 2)


def nobody_adds_up(patch: pytest.MonkeyPatch) -> None:
    """A run begins whatever its ledger says."""
    patch.setattr(CascadeMechanism, "ledger", lambda self, t=None: Ledger(()))


def half_the_noise_in_a_plan(patch: pytest.MonkeyPatch) -> None:
    nobody_adds_up(patch)
    law = Timescale.noise.func  # type: ignore[attr-defined]
    patch.setattr(Timescale, "noise", property(lambda scale: IntegerLaplace(law(scale).scale / 2)))


def sensitivity_of_one(patch: pytest.MonkeyPatch) -> None:
    """A replaced point moves two counts; this pays for one."""
    nobody_adds_up(patch)
    law = lambda scale: IntegerLaplace(scale_for(scale.epsilon / scale.resolutions))  # noqa: E731
    patch.setattr(Timescale, "noise", property(law))


def a_budget_that_does_not_sum(patch: pytest.MonkeyPatch) -> None:
    """Every timescale spends a tenth more than its share."""
    nobody_adds_up(patch)
    find = plan_module.stage_at

    def generous(t: int, dimension: int, epsilon: float) -> Stage:
        stage = find(t, dimension, epsilon)
        return replace(stage, timescales=tuple(replace(s, epsilon=1.1 * s.epsilon) for s in stage.timescales))

    patch.setattr(plan_module, "stage_at", generous)
    patch.setattr(cascade_module, "stage_at", generous)


def noise_reused_between_levels(patch: pytest.MonkeyPatch) -> None:
    address = paper_module.draw_address
    patch.setattr(paper_module, "draw_address", lambda purpose, level, index=0: address(purpose, 0, index))


def bucket_ends_by_data(patch: pytest.MonkeyPatch) -> None:
    """A bucket that begins with a high point is closed when it is half full."""
    update = CascadeMechanism.update

    def hasty(self: CascadeMechanism, batch: Batch) -> CascadeMechanism:
        if batch.records and self.t == self.start and int(batch.rows[0, 0]) >> (self.finest - 1):
            self, (slow, *fast) = copy(self), self.stage.timescales
            self.stage = replace(self.stage, timescales=(replace(slow, size=slow.size // 2), *fast))
        return update(self, batch)

    patch.setattr(CascadeMechanism, "update", hasty)


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
    counted: list[Integers] = []

    def remembered(cells: NDArray[Any], depth: int, tree: Tree) -> Integers:
        counted.append(count_leaves(cells, depth, tree))
        return counted[-1]

    def bare(start: int, end: int, tree: Tree, counts: Integers, variance: float) -> NoisyCounts:
        return NoisyCounts(start, end, tree, np.append(counts[:-1], counted[-1][-1]), variance)

    patch.setattr(cascade_module, "count_leaves", remembered)
    patch.setattr(cascade_module, "NoisyCounts", bare)


def noise_drawn_anew_after_load(patch: pytest.MonkeyPatch) -> None:
    def others(secret: str, public: str) -> tuple[Noise, bytes]:
        return Noise(key=hashlib.sha256(bytes.fromhex(secret)).digest()), bytes.fromhex(public)

    patch.setattr(synthesizer_state, "restored_keys", others)


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


@dataclass(frozen=True, eq=False)
class WithRawData(Measured):
    """What crosses the trust boundary, with the points of the open bucket beside it."""

    raw: NDArray[Any]


def high(mechanism: CascadeMechanism) -> NDArray[Any]:
    """For each point of the open bucket, whether it is in the upper half of the cube."""
    depth = mechanism._deepest(mechanism.stage)
    return np.concatenate([np.empty(0, np.int64), *(part.rows[:, 0] >> (depth - 1) for part in mechanism._held.parts)])


def _raw_data_crosses(patch: pytest.MonkeyPatch) -> None:
    measured = CascadeMechanism.measured

    def leaking(self: CascadeMechanism, seed: int) -> WithRawData:
        return WithRawData(**vars(measured(self, seed)), raw=high(self))

    patch.setattr(CascadeMechanism, "measured", leaking)


def rounding_by_raw_counts(patch: pytest.MonkeyPatch) -> None:
    """Which way counts are rounded depends on the points of the open bucket."""
    _raw_data_crosses(patch)
    fit = CascadeModel.fit.__func__  # type: ignore[attr-defined]

    def peeking(cls: type[CascadeModel], measured: WithRawData, *rest: Any) -> CascadeModel:  # noqa: ANN401 - handed on
        offset = 0.3 + 0.4 * (int(measured.raw.sum()) % 2)
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(cell_model, "round_in_order", lambda mass, total, _: round_in_order(mass, total, offset))
            found: CascadeModel = fit(cls, measured, *rest)
        return found

    patch.setattr(CascadeModel, "fit", classmethod(peeking))


def error_from_raw_data(patch: pytest.MonkeyPatch) -> None:
    """The expected error knows how many points of the open bucket are high."""
    _raw_data_crosses(patch)
    fit = CascadeModel.fit.__func__  # type: ignore[attr-defined]

    def knowing(cls: type[CascadeModel], measured: WithRawData, *rest: Any) -> CascadeModel:  # noqa: ANN401 - handed on
        model: CascadeModel = fit(cls, measured, *rest)
        return replace(model, spread=(model.spread or 0.0) + int(measured.raw.sum()))

    patch.setattr(CascadeModel, "fit", classmethod(knowing))


def an_uncounted_boundary_point(patch: pytest.MonkeyPatch) -> None:
    """Points on the upper face are counted in no cell."""

    def exclusive(cells: NDArray[Any], depth: int, tree: Tree) -> Integers:
        return count_leaves(cells[cells < (1 << depth) - 1], depth, tree)

    patch.setattr(cascade_module, "count_leaves", exclusive)


def trees_from_raw_counts(patch: pytest.MonkeyPatch) -> None:
    """Nothing is split if the first point of the bucket is high."""
    take, next_trees = CascadeMechanism._take, History.next_trees
    at_work: list[CascadeMechanism] = []

    def seen(self: CascadeMechanism, part: Part) -> None:
        at_work[:] = [self]
        take(self, part)

    def peeking(self: History, timescales: Sequence[Timescale], *rest: Any) -> Trees:  # noqa: ANN401 - handed on
        found = next_trees(self, timescales, *rest)
        return [(LEAF,) * len(trees) for trees in found] if high(at_work[0])[:1].any() else found

    patch.setattr(CascadeMechanism, "_take", seen)
    patch.setattr(History, "next_trees", peeking)


class _Moved(Noise):
    """A source whose draws all live in one bucket."""

    def __init__(self, noise: Noise, hi: int) -> None:
        super().__init__(key=noise.key)
        self._hi = hi

    def laplace_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        return super().laplace_at(scale, self._hi, lo)


def noise_shared_by_buckets(patch: pytest.MonkeyPatch) -> None:
    """Every bucket uses the noise of the first one of its stage."""
    measure = CascadeMechanism._measure

    def sharing(self: CascadeMechanism, *rest: Any) -> NoisyCounts:  # noqa: ANN401 - handed on
        other = copy(self)
        other.noise = _Moved(self.noise, self.start)
        return measure(other, *rest)

    patch.setattr(CascadeMechanism, "_measure", sharing)


def overlapping_buckets(patch: pytest.MonkeyPatch) -> None:
    """Fast buckets reach one point too far back."""
    within = Held.within

    def reaching(self: Held, span: Span) -> Any:  # noqa: ANN401 - handed on
        before, (plain, counted) = within(self, Span(0, span.start))[0], within(self, span)
        return [*(rows[-1:] for rows in before[-1:]), *plain], counted

    patch.setattr(Held, "within", reaching)
