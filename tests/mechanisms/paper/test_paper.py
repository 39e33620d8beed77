"""The paper's mechanism: the fast engine has the law of the literal one, and the ledger adds up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from headwater.public.laws import scale_for
from headwater.public.paper import cell_budget
from headwater.public.partition import DEEPEST, Partition
from headwater.secret import counters as inhomogeneous_module
from headwater.secret import paper as paper_module
from headwater.secret.counters import (
    HybridCounter,
    InhomogeneousCounter,
    SparseCounter,
    SubCounter,
    level_at,
    level_start,
)
from headwater.secret.noise import Noise
from headwater.secret.paper import PaperMechanism, Segment
from tests.support.counter_law import Bare
from tests.support.literal_paper import LiteralPaper
from tests.support.nightly import NIGHTLY
from tests.support.runs import cube, feed
from tests.support.same_law import Sample, p_value

Engine = type[PaperMechanism] | type[LiteralPaper]


@dataclass(frozen=True)
class Setting:
    """A small stream, and how closely to look. The paper's constant is 9; small ones make segments seal often.

    A sub-counter without noise lets the segments themselves be seen; the real one hides them behind its own noise.
    """

    d: int
    epsilon: float
    points: int
    constant: float = 9.0
    sub: SubCounter = HybridCounter
    runs: int = 800 if NIGHTLY else 200


SETTINGS = {
    "line": Setting(1, 1.0, 20),
    "line, sealing": Setting(1, 12.0, 6, 0.3, Bare),
    "square": Setting(2, 1.0, 30),
    "square, sealing": Setting(2, 8.0, 15, 0.1, Bare),
    "square, sealing, real sub-counter": Setting(2, 8.0, 15, 0.1),
    "square, large budget": Setting(2, 8.0, 9),
    "square, small budget": Setting(2, 0.1, 79),
    "square, small budget, sealing": Setting(2, 0.1, 79, 0.05, Bare),
    "cube, sealing": Setting(3, 8.0, 12, 0.1, Bare),
}


def stream(d: int, n: int) -> np.ndarray:
    """Three of four points in one corner, the others anywhere."""
    x = np.random.default_rng(n).random((n, d))
    x[np.arange(n) % 4 > 0] *= 0.01
    return x


def sample(engine: Engine, setting: str, seed: int, runs: int) -> Sample:
    """Noisy counts of the corner cell and its sibling at every depth, half-way and at the end, in many runs."""
    s = SETTINGS[setting]
    x, rows = stream(s.d, s.points), []
    for run in range(runs):
        mechanism = engine(cube(s.d), s.epsilon, Noise(seed + run), constant=s.constant, sub=s.sub)
        row: list[int] = []
        for part in (x[: s.points // 2], x[s.points // 2 :]):
            mechanism = feed(mechanism, part)
            for depth in range(1, mechanism.depth + 1):
                row += mechanism.noisy_counts(depth, np.arange(2, dtype=np.uint64)).counts.tolist()
        rows.append(row)
    return np.array(rows, dtype=float)


ENGINES: dict[str, Engine] = {"fast": PaperMechanism, "literal": LiteralPaper}


@cache
def sound_sample(engine: str, setting: str) -> Sample:
    return sample(ENGINES[engine], setting, 0 if engine == "fast" else 10**6, SETTINGS[setting].runs)


@pytest.mark.parametrize("setting", SETTINGS)
def test_fast_and_literal_have_the_same_law(setting: str) -> None:
    """Fails by chance, over the choice of seeds, with probability 10^−4 a setting."""
    assert p_value(sound_sample("fast", setting), sound_sample("literal", setting)) > 1e-4


def test_sealing_settings_do_seal() -> None:
    """Otherwise the test above would compare two silences."""
    found = sound_sample("literal", "square, sealing")
    last = found[:, -2]  # the newest corner cell: no finished level, so no other noise
    assert 0.2 < (last != 0).mean() < 0.999
    assert len(np.unique(last)) > 3


def half_the_noise(patch: pytest.MonkeyPatch) -> None:
    """In the fast engine: all noise is too small by half."""
    patch.setattr(paper_module, "scale_for", lambda cost: scale_for(cost) / 2)


def one_threshold_for_all(patch: pytest.MonkeyPatch) -> None:
    """In the fast engine: every segment's noise lives at the first segment's address."""
    address = paper_module.draw_address
    patch.setattr(paper_module, "draw_address", lambda purpose, level, index=0: address(purpose, level, 0 * index))


def late_by_one(patch: pytest.MonkeyPatch) -> None:
    """In the fast engine: a segment starts one step late."""
    sealed_at = Segment.sealed_at

    def late(self: Segment, *args: object) -> tuple[int, int] | None:
        sealed = sealed_at(self, *args)  # type: ignore[arg-type]
        return sealed and (sealed[0] + 1, sealed[1])

    patch.setattr(Segment, "sealed_at", late)


def budget_of_the_depth_above(patch: pytest.MonkeyPatch) -> None:
    """In the fast engine: a cell spends what cells three levels deeper should."""
    patch.setattr(paper_module, "cell_budget", lambda j, r, d, e: cell_budget(j + 3, r, d, e))


def literal_forgets_a_test(patch: pytest.MonkeyPatch) -> None:
    """In the literal engine: only every second step is tested."""
    add = SparseCounter.add

    def lazy(self: SparseCounter, increment: int) -> None:
        if self.time % 2:
            add(self, increment)
        else:
            self.time += 1
            self._segment += increment

    patch.setattr(SparseCounter, "add", lazy)


def literal_total_without_noise(patch: pytest.MonkeyPatch) -> None:
    """In the literal engine: levels end with their true totals."""
    patch.setattr(inhomogeneous_module, "scale_for", lambda cost: 1e-3)


def literal_starts_late(patch: pytest.MonkeyPatch) -> None:
    """In the literal engine: a cell misses its first point."""
    add = InhomogeneousCounter.add

    def misses(self: InhomogeneousCounter, increment: int) -> None:
        first = self._counter is None and level_at(self.time + 1, self.epsilon) >= self.start
        add(self, 0 if first else increment)

    patch.setattr(InhomogeneousCounter, "add", misses)


@pytest.mark.parametrize(
    ("fault", "setting"),
    [
        (half_the_noise, "square, sealing"),
        (half_the_noise, "square"),
        (one_threshold_for_all, "square, sealing"),
        (late_by_one, "square, sealing"),
        (budget_of_the_depth_above, "square"),
        (budget_of_the_depth_above, "line"),
        (literal_forgets_a_test, "square, sealing"),
        (literal_total_without_noise, "line"),
        (literal_starts_late, "square, sealing"),
    ],
)
def test_planted_faults_break_the_equality(fault: Callable[[pytest.MonkeyPatch], None], setting: str) -> None:
    """A fault in either engine is seen by the very check that the engines pass, in as many runs."""
    faulty, sound = ("literal", "fast") if fault.__name__.startswith("literal") else ("fast", "literal")
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        wrong = sample(ENGINES[faulty], setting, 2 * 10**6, SETTINGS[setting].runs)
    assert p_value(wrong, sound_sample(sound, setting)) < 1e-6


@pytest.mark.parametrize("d", range(1, 11))
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0, 50.0])
def test_ledger_adds_up_to_at_most_epsilon_at_every_level(d: int, epsilon: float) -> None:
    mechanism = PaperMechanism(cube(d), epsilon, Noise(seed=0))
    totals = [mechanism.ledger_of(level).total for level in range(DEEPEST + 1)]
    assert max(totals) <= Fraction(epsilon)
    if d >= 2:
        assert totals[-1] > Fraction(epsilon) * Fraction(999, 1000), "late levels use the whole budget"
    else:
        assert Fraction(38, 100) < max(totals) / Fraction(epsilon) < Fraction(2, 5), "the paper leaves 3/5 unused"


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 9.0])
def test_history_and_start_are_as_the_paper_has_them(d: int, epsilon: float) -> None:
    """Without noise: for d ≥ 2 a cell counts from its birth, for d = 1 from t_0; the level that lasts is unsealed."""
    n = 70
    x = stream(d, n)
    mechanism = feed(PaperMechanism(cube(d), epsilon, Silent(0), constant=1e9), x)
    now = level_start(level_at(n, epsilon), epsilon)
    for depth in range(1, mechanism.depth + 1):
        born = level_start(depth if d >= 2 else 0, epsilon)
        inside = Partition(d).cells(x, depth)[min(born, now) - 1 : now - 1]
        cells = np.arange(2**depth, dtype=np.uint64)
        expected = np.bincount(inside.astype(int), minlength=2**depth) if born < now else np.zeros(2**depth)
        assert mechanism.noisy_counts(depth, cells).counts.tolist() == expected.tolist()


class Silent(Noise):
    """No noise at all."""

    def laplace_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> NDArray[np.int64]:
        return np.zeros(np.broadcast(hi, lo).shape or 1, dtype=np.int64)


def test_depth_follows_the_prose_of_the_paper() -> None:
    """Depth j exists from t_j = ⌈2^j/ε⌉ on, not one level early as the pseudo-code has it."""
    for epsilon in (0.3, 1.0, 3.0, 50.0):
        mechanism = PaperMechanism(cube(2), epsilon, Noise(seed=0))
        for t in range(1, 40):
            mechanism = feed(mechanism, np.array([[0.5, 0.5]]))
            deepest = max((j for j in range(1, 30) if level_start(j, epsilon) <= t), default=0)
            assert mechanism.depth == deepest
