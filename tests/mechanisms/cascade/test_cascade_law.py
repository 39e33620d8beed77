"""The exact distribution of all trees and counts that cascade publishes, of tiny runs on every pair of neighbours.

Every output in a box is enumerated, and the box holds all but a stated mass. About what is beyond it: between streams
with true counts ``a`` and ``b`` a published count ``c`` has the log ratio ``(|c − b| − |c − a|)/σ``, the same for all
``c`` beyond both. So an output beyond the box has the ratio of one within that has the same trees. Other trees may
appear out there, but over any tree a replaced point moves two counts by one, and trees are the same on both streams:
tested below, the latter for counts that are far off.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from headwater.public.budget import Budget
from headwater.public.cascade.counts import NoisyCounts
from headwater.public.cascade.plan import Stage, Timescale, stage_at
from headwater.public.cascade.tree import Tree
from headwater.public.partition import Axis
from headwater.public.protocol import Span
from headwater.secret import cascade as cascade_module
from headwater.secret.cascade import CascadeMechanism
from headwater.secret.leaves import count_leaves
from tests.support.cascade_law import Law, Output, Stream, Tiny, far, laws, near, neighbours, sample
from tests.support.forced import Fault, Trees, cells_of, half_the_noise, tree_of_raw_counts
from tests.support.noise_checks import chi_square

ROUNDING = 1e-9
"""Of the test's own floating point; the noise itself is exact."""
FAR = 10**4


def plan(points: int, *timescales: Timescale, first: Timescale | None = None) -> tuple[Stage, ...]:
    """The first bucket has one timescale, as shipped, and holds one point; the others begin with the second."""
    epsilon = sum(timescale.epsilon for timescale in timescales)
    return Stage(0, 1, (first or Timescale(1, epsilon, 1),)), Stage(1, points, timescales)


ENDS = ((0.1,), (0.9,))
CORNERS = ((0.1, 0.1), (0.1, 0.9), (0.9, 0.1), (0.9, 0.9))
ONE, SURE, TWO = Timescale(1, 12.0, 16), Timescale(1, 24.0, 4), Timescale(1, 24.0, 16, resolutions=2)
TINY = {
    "a line": Tiny(12.0, ENDS, (1, 1, 1), plan(3, Timescale(1, 12.0, 6), first=ONE)),
    "a plane": Tiny(12.0, CORNERS, (1, 1), plan(2, ONE, first=ONE), (Axis(), Axis())),
    "a plane, longer": Tiny(24.0, CORNERS, (1, 1, 1), plan(3, SURE, first=SURE), (Axis(), Axis())),
    "two trees a bucket": Tiny(24.0, ENDS, (1, 1), plan(2, TWO, first=TWO)),
    # The first point is counted in a tree without splits, the same for all streams, so it is always at one place.
    "two timescales": Tiny(24.0, ENDS, (1, 1, 1), plan(3, Timescale(2, 10.4, 2), Timescale(1, 13.6, 8)), fixed=1),
    # The shipped plan: 8 points, then 2 at two timescales. A column of three values, of which the stream has two.
    "as shipped": Tiny(31.0, ((0.0,), (0.5,)), (8, 1), axes=(Axis(values=3),)),
    "shipped plan": Tiny(
        31.0, ((0.0,), (0.5,)), (8, 1, 1), (stage_at(0, 1, 31.0), stage_at(8, 1, 31.0)), (Axis(values=3),)
    ),
}
BEYOND = 3e-4
"""The chance that one count's noise is beyond the box; a tiny run has at most five counts that matter."""


def loss(found: dict[Stream, Law]) -> float:
    """The largest log ratio of the probabilities of one output on neighbouring streams."""
    outputs = list(next(iter(found.values())))
    if any(law.keys() != set(outputs) for law in found.values()):
        return math.inf  # an output that is possible on some streams only
    logs = {stream: np.array([law[output] for output in outputs]) for stream, law in found.items()}
    return max(float(np.abs(logs[one] - logs[other]).max()) for one, other in neighbours(list(found)))


@pytest.mark.parametrize("name", TINY)
def test_no_output_is_more_than_epsilon_likelier_on_a_neighbour(name: str) -> None:
    """Exact: every output in the box, every pair of neighbouring streams; the bound is reached, and the box is full."""
    tiny = TINY[name]
    found = laws(tiny, near(tiny, BEYOND))
    for law in found.values():
        assert 1 - 5 * BEYOND <= math.fsum(map(math.exp, law.values())) <= 1
    worst = loss(found)
    assert worst <= tiny.epsilon * (1 + ROUNDING)
    assert worst >= tiny.epsilon * (1 - ROUNDING)
    if name != "as shipped":  # too short for that
        assert len({trees(output) for output in found.popitem()[1]}) >= 3, "what is published chooses trees"


def trees(output: Output) -> Output:
    """The shapes in an output."""
    return output[::2]


# --- beyond the box ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TINY)
def test_far_beyond_the_box_trees_and_ratios_are_no_others(name: str) -> None:
    """Every count is far too small or far too large: all streams still choose the same trees, and lose at most ε."""
    tiny = TINY[name]
    assert loss(laws(tiny, far(tiny, FAR))) <= tiny.epsilon * (1 + ROUNDING)


def all_trees(depth: int) -> list[Tree]:
    """Every tree whose leaves are no deeper than this."""
    found, rows = list[Tree](), [[np.array([split])] for split in (False, True)]
    while rows:
        splits = rows.pop()
        nodes = 2 * int(splits[-1].sum())
        if not nodes:
            found.append(Tree(tuple(splits)))
        else:
            deeper = (False, True) if len(splits) < depth else (False,)
            rows += [[*splits, np.array(flags)] for flags in itertools.product(deeper, repeat=nodes)]
    return found


def test_over_any_tree_a_replaced_point_moves_two_counts_by_one() -> None:
    """Every tree of depth 3, every two cells: so a bucket loses 2/σ a tree at most, whatever tree was chosen."""
    every = all_trees(3)
    assert len(every) == 26
    for tree, cell in itertools.product(every, range(8)):
        for other in range(cell):
            one, two = (count_leaves(np.array([cells], dtype=np.uint64), 3, tree) for cells in (cell, other))
            assert sorted((one - two)[one != two].tolist()) in ([], [-1, 1])


def test_order_within_a_lot_plays_no_part() -> None:
    """So that the runs above, which have every lot in one order, stand for all streams."""
    tiny = TINY["as shipped"]
    lots = [(0, 0, 0, 1, 1, 1, 1, 1), (1, 1, 1, 0, 1, 0, 1, 0), (1, 1, 1, 1, 1, 0, 0, 0)]
    one, *others = laws(tiny, near(tiny, 0.1), streams=[lots, [(0,)], [(1,)]]).values()
    assert all(other == one for other in others)


# --- the code draws from this law -------------------------------------------------------------------------

LOUD = Timescale(1, 4.0, 128)
NOISY = {
    "a line": (Tiny(4.0, ENDS, (1, 1, 1), plan(3, LOUD, first=LOUD)), 0.1),
    "two trees a bucket": (Tiny(8.0, ENDS, (1, 1), plan(2, Timescale(1, 8.0, 128, resolutions=2), first=LOUD)), 0.1),
    "two timescales": (Tiny(12.0, ENDS, (1, 1, 1), plan(3, Timescale(2, 6.0, 8), Timescale(1, 6.0, 32))), 0.2),
    "as shipped": (Tiny(4.5, ((0.0,), (0.5,)), (8, 1, 1), axes=(Axis(values=3),)), 0.2),
}
"""With more noise, so that a sample shows it; what is beyond the box is one outcome more."""
RUNS = 2000


def agreement(law: Law, drawn: Counter[Output]) -> float:
    """The p-value of a sample if this is its law."""
    chances = np.exp(np.array(list(law.values())))
    inside = np.array([drawn[output] for output in law])
    beyond = drawn.total() - inside.sum()
    return chi_square(np.append(inside, beyond), np.append(chances, 1 - chances.sum()))


@pytest.mark.parametrize("name", NOISY)
def test_runs_with_real_noise_follow_the_exact_law(name: str) -> None:
    """Fails by chance with probability 10^−6; a law with half the noise is rejected."""
    tiny, tail = NOISY[name]
    lots = [[options[len(options) // 3]] for options in tiny.streams()]
    (stream, law), *_ = laws(tiny, near(tiny, tail), streams=lots).items()
    drawn = sample(tiny, stream, RUNS)
    assert agreement(law, drawn) > 1e-6
    other = laws(tiny, near(tiny, 0.5), streams=lots, fault=half_the_noise)[stream]
    assert agreement(other, drawn) < 1e-9


# --- planted faults ---------------------------------------------------------------------------------------


def a_leaf_without_noise(patch: pytest.MonkeyPatch) -> None:
    """The first leaf of every tree is published as it is."""
    measure = CascadeMechanism._measure

    def leaking(self: CascadeMechanism, timescale: int, span: Span, trees: Trees) -> NoisyCounts:
        summary = measure(self, timescale, span, trees)
        counts = summary.counts.copy()
        counts[0] = count_leaves(*cells_of(self, span), summary.tree)[0]
        return replace(summary, counts=counts)

    patch.setattr(CascadeMechanism, "_measure", leaking)


def a_timescale_for_free(patch: pytest.MonkeyPatch) -> None:
    """Slow buckets spend all of ε, fast ones theirs on top."""
    find = vars(cascade_module)["stage_at"]

    def generous(t: int, dimension: int, budget: Budget) -> Stage:
        stage: Stage = find(t, dimension, budget)
        slow = replace(stage.timescales[0], epsilon=budget.epsilon)
        return replace(stage, timescales=(slow, *stage.timescales[1:]))

    patch.setattr(cascade_module, "stage_at", generous)


FAULTS = [
    *itertools.product([half_the_noise], ["a line", "a plane", "two trees a bucket", "as shipped"]),
    *itertools.product([tree_of_raw_counts, a_leaf_without_noise], TINY),
    (a_timescale_for_free, "two timescales"),
]


@pytest.mark.parametrize(("fault", "name"), FAULTS)
def test_planted_faults_show_in_the_exact_law(fault: Fault, name: str) -> None:
    """Already in a smaller box than above."""
    tiny = TINY[name]
    assert loss(laws(tiny, near(tiny, 0.1), fault=fault)) > 1.1 * tiny.epsilon
