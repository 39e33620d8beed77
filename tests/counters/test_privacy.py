"""The exact output distributions of the counters, on every pair of neighbouring inputs: no sampling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import pytest

from headwater.secret import counters as inhomogeneous_module
from headwater.secret.counters import BinaryCounter, HybridCounter, InhomogeneousCounter, SparseCounter
from headwater.secret.noise import NoiseStream
from tests.support.counter_faults import ForgetsALength, HalvesTestNoise, HalvesThresholdNoise
from tests.support.counter_law import Bare, Linear, Script, sealings

ROUNDING = 1e-9
"""Of the test's own floating point; the noise itself is exact."""


def worst_linear(counter: Callable[..., object], horizon: int, epsilon: float) -> float:
    law = Linear.of(lambda noise: counter(epsilon=epsilon, noise=noise), horizon)  # type: ignore[arg-type, return-value]
    return law.loss(box=2 if horizon < 5 else 1)


@pytest.mark.parametrize("horizon", range(1, 7))
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_binary_counter_loses_at_most_epsilon(horizon: int, epsilon: float) -> None:
    """For every pair of neighbours and every output; and almost all of ε is really lost, so the box is big enough."""
    worst = worst_linear(partial(BinaryCounter, horizon), horizon, epsilon)
    assert worst <= epsilon + ROUNDING
    if horizon in (1, 2, 4):  # there some step lies in a block of every length
        assert worst > 0.99 * epsilon


@pytest.mark.parametrize("horizon", range(1, 7))
def test_hybrid_counter_loses_at_most_epsilon(horizon: int) -> None:
    epsilon = 4.0
    worst = worst_linear(HybridCounter, horizon, epsilon)
    assert 0.4 * epsilon < worst <= epsilon + ROUNDING


@pytest.mark.parametrize("horizon", [2, 4, 5, 6])
def test_a_binary_counter_with_too_little_noise_is_caught(horizon: int) -> None:
    assert worst_linear(partial(ForgetsALength, horizon), horizon, 1.0) > 1.0 + ROUNDING


@cache
def sub_loss(epsilon: float, seals: int) -> float:
    """What the sub-counter can lose about one sealed count moving by one."""
    return worst_linear(HybridCounter, seals, epsilon) if seals else 0.0


def worst_sparse(
    horizon: int,
    epsilon: float,
    constant: float,
    sparse: type[SparseCounter] = SparseCounter,
    values: Sequence[int] = (0, 1),
) -> tuple[float, float]:
    """The largest log ratio of the cuts, and of the cuts with the sub-counter's outputs, over all neighbours.

    Given the cuts the sub-counter's noise is independent of everything else, so the largest ratio of both together is
    the largest sum of the two.
    """

    def make(noise: Script) -> SparseCounter:
        return sparse(horizon, epsilon=epsilon, constant=constant, sub=Bare, noise=noise)

    make(Script())
    given = Bare.given  # what the counter hands to its sub-counter, whatever it claims
    reach = horizon * max(values) + math.ceil(24 * 2 / epsilon)
    laws = sealings(make, values, horizon, reach)
    for law in laws.values():
        assert math.isclose(sum(law.values()), 1, abs_tol=1e-6)
    worst_cuts = worst_both = 0.0
    for x, step in itertools.product(laws, range(horizon)):
        y = (*x[:step], x[step] + 1, *x[step + 1 :])
        if y not in laws:
            continue
        at_step = {tuple(s for s, _ in cuts): (cuts, chance) for cuts, chance in laws[y].items()}
        for cuts, chance in laws[x].items():
            other, other_chance = at_step[tuple(s for s, _ in cuts)]
            moved = sum(abs(a - b) for (_, a), (_, b) in zip(cuts, other, strict=True))
            assert moved <= 1, "one increment may move one sealed count, by one"
            ratio = abs(math.log(chance) - math.log(other_chance))
            worst_cuts = max(worst_cuts, ratio)
            worst_both = max(worst_both, ratio + (sub_loss(given, len(cuts)) if moved else 0.0))
    return worst_cuts, worst_both


@pytest.mark.parametrize(
    ("horizon", "epsilon", "constant"),
    [(1, 4.0, 9.0), (2, 4.0, 9.0), (3, 4.0, 0.5), (4, 6.0, 9.0), (5, 6.0, 1.0), (5, 8.0, 2.0)],
)
def test_sparse_counter_loses_at_most_epsilon(horizon: int, epsilon: float, constant: float) -> None:
    """Algorithm 2, whole: where it cuts costs at most ε/2, and with the sub-counter's outputs at most ε."""
    cuts, both = worst_sparse(horizon, epsilon, constant)
    assert cuts <= epsilon / 2 + ROUNDING
    assert both <= epsilon + ROUNDING
    assert cuts > 0.3 * epsilon, "the test must come near the bound, or it proves nothing"


def test_sparse_counter_with_larger_increments() -> None:
    cuts, both = worst_sparse(3, 6.0, 2.0, values=(0, 1, 2, 3))
    assert cuts <= 3.0 + ROUNDING
    assert both <= 6.0 + ROUNDING


@pytest.mark.parametrize("fault", [HalvesThresholdNoise, HalvesTestNoise])
def test_a_sparse_counter_with_too_little_noise_is_caught(fault: type[SparseCounter]) -> None:
    cuts, both = worst_sparse(4, 6.0, 1.0, fault)
    assert cuts > 3.0 + ROUNDING
    assert both > 6.0 + ROUNDING


def test_inhomogeneous_counter_is_its_levels() -> None:
    """Algorithm 3 on six steps: each level is one sparse counter with half its budget, and one total with the other.

    The sparse counters' exact laws are computed above. Here they are replaced by ones without noise, and what is left
    is read off as a linear counter: one fresh draw a finished level, of scale 2/ε_r, on top of exact counts.
    """
    budgets = {0: 1.0, 1: 0.5, 2: 0.25}
    built: list[tuple[int, float]] = []

    class Plain(SparseCounter):
        def __init__(self, horizon: int, *, epsilon: float, **_: object) -> None:
            built.append((horizon, epsilon))
            self.total = 0

        def add(self, increment: int) -> None:
            self.total += increment

        @property
        def count(self) -> int:
            return self.total

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inhomogeneous_module, "SparseCounter", Plain)
        law = Linear.of(lambda noise: InhomogeneousCounter(epsilon=1.0, budget=budgets.__getitem__, noise=noise), 6)
    assert built[:3] == [(1, 0.5), (2, 0.25), (4, 0.125)]
    assert law.scales == (2 / budgets[0], 2 / budgets[1])
    assert law.noise.T.tolist() == [[0, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1]]
    assert (law.steps == [[int(i <= t) for i in range(6)] for t in range(6)]).all()


@pytest.mark.parametrize("level", [0, 1, 2])
def test_inhomogeneous_counter_loses_at_most_its_levels_budget(level: int) -> None:
    """The exact loss of a level's sparse counter and of its total add up to no more than the level's budget."""
    epsilon = 12.0
    cuts, both = worst_sparse(2**level, epsilon / 2, 2.0)
    total = 1 / (2 / epsilon)  # a total that moves by one under noise of scale 2/ε, exactly
    assert cuts <= epsilon / 4 + ROUNDING
    assert both + total <= epsilon + ROUNDING


def test_a_sparse_counter_that_gives_its_sub_counter_too_much_is_caught() -> None:
    class Generous(SparseCounter):
        def __init__(self, horizon: int, *, epsilon: float, sub: type[Bare], **rest: Any) -> None:  # noqa: ANN401
            def more(*, epsilon: float, noise: NoiseStream) -> Any:  # noqa: ANN401
                return sub(epsilon=10 * epsilon, noise=noise)

            super().__init__(horizon, epsilon=epsilon, sub=more, **rest)

    assert worst_sparse(3, 4.0, 0.5, Generous)[1] > 4.0
