"""Faults that a billion draws are there to find, planted: the checks must find them. Part of every test run."""

from __future__ import annotations

import numpy as np

from headwater.public.partition import Integers
from headwater.secret.noise import Noise
from tests.statistics.keystream import bytes_of, judge_bytes
from tests.statistics.suite import CHUNK, LEVEL_OF_JUDGEMENT, MANY, examine, here
from tests.statistics.tallies import Draw, Law, Tally, count, judge, laplace, law_of, together

SCALE = 25.0
P_VALUES = 2000  # more than the suite has


def rejected(found: dict[str, float]) -> set[str]:
    """The checks that would raise an alarm among as many p-values as the suite has."""
    return {name for name, p in found.items() if p * P_VALUES < LEVEL_OF_JUDGEMENT}


def alarms(draw: Draw, draws: int) -> set[str]:
    """The checks that reject this sampler."""
    law = law_of(SCALE, draws)
    tally = count(law, np.zeros(0, dtype=np.int64))
    for start in range(0, draws, CHUNK):
        tally += count(law, draw(SCALE, start, min(CHUNK, draws - start)))
    return rejected(judge(law, tally))


def thrown(scale: float, law: Law) -> Tally:
    """The tally of so many draws of another scale, thrown all at once: how often each value comes is multinomial.

    How neighbours go together is not in it: they come as the law says.
    """
    values = np.arange(-3000, 3001)  # e^−120 lies beyond
    chances = np.exp(-np.abs(values) / scale)
    counts = np.random.default_rng(5).multinomial(law.n, chances / chances.sum())
    parts = [count(law, np.array([value])) for value in values]
    pairs = np.random.default_rng(6).multinomial(law.n // 2, law.pairs)
    return Tally(
        law.n,
        sum((n * part.bins for n, part in zip(counts, parts, strict=True)), np.zeros_like(parts[0].bins)),
        float(counts @ np.abs(values)),
        sum((n * part.tails for n, part in zip(counts, parts, strict=True)), np.zeros_like(parts[0].tails)),
        sum((n * part.seconds for n, part in zip(counts, parts, strict=True)), np.zeros_like(parts[0].seconds)),
        pairs,
    )


def test_a_scale_that_is_a_thousandth_off_is_found() -> None:
    """With the draws that the suite spends on this scale, ten standard deviations. Missed by one seed in 10^4."""
    law = law_of(SCALE, MANY[SCALE])
    for factor in (0.999, 1.001):
        assert "size" in rejected(judge(law, thrown(factor * SCALE, law)))
    assert rejected(judge(law, thrown(SCALE, law))) == set()


def test_a_scale_of_the_sampler_itself_that_is_off_is_found() -> None:
    """Half a percent in four million draws: ten standard deviations. Missed by one seed in 10^4."""
    honest = laplace(seed=2, hi=2)
    assert "size" in alarms(lambda scale, *at: honest(1.005 * scale, *at), draws=16 * CHUNK)
    assert alarms(honest, draws=16 * CHUNK) == set()


def test_an_error_that_all_scales_share_adds_up() -> None:
    """Of two standard deviations each, which alone say nothing."""
    assert together([(1000, 2.0)] * 24) < 1e-20
    assert together([(1000, 2.0), (1000, -2.0)] * 12) == 1.0


def test_a_tail_that_is_cut_off_is_found() -> None:
    """300 of a million draws should lie beyond the cut. No seed can miss that: they never come."""
    law, honest = law_of(SCALE, 4 * CHUNK), laplace(seed=3, hi=3)
    edge = law.tails[1] - 1
    assert "upper tail 300" in alarms(lambda *at: np.clip(honest(*at), -edge, edge), draws=4 * CHUNK)
    assert alarms(honest, draws=4 * CHUNK) == set()


def test_neighbours_that_are_alike_are_found() -> None:
    honest = laplace(seed=4, hi=4)

    def alike(scale: float, first: int, n: int) -> Integers:
        """One draw in a hundred is that of the address before."""
        found = honest(scale, first, n)
        again = np.arange(1, n, 100)
        found[again] = found[again - 1]
        return found

    assert "neighbours" in alarms(alike, draws=8 * CHUNK)


def test_a_bit_that_is_one_too_often_is_found() -> None:
    """A bit is set once in 200 times: 0.5025 instead of 0.5, 7 standard deviations of two million addresses."""
    words = Noise(seed=6).uniform_at(6, np.arange(8 * CHUNK, dtype=np.uint64))
    honest = judge_bytes(bytes_of(words))
    words = words.copy()
    words[::100, 1] |= np.uint64(1 << 17)
    found = judge_bytes(bytes_of(words))
    bit = 64 + 17
    assert found["bits"][bit] * P_VALUES < LEVEL_OF_JUDGEMENT < min(honest["bits"]) * P_VALUES
    assert [p for i, p in enumerate(found["bits"]) if i != bit] == [p for i, p in enumerate(honest["bits"]) if i != bit]


def test_a_small_part_of_the_suite_runs() -> None:
    health = examine(share=0.0002, seed=2, run=here)
    assert health.draws > 100_000
    assert health.healthy
