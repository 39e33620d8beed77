"""Windows, and long runs that are saved and loaded.

Most runs here have ε = 20 and d = 2: there a first fast timescale appears at 16 points and a second one at 4,096.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

import headwater as hw
from headwater.public.cascade import plan as plan_module
from headwater.secret import noise as randomness
from headwater.secret.cascade import CascadeMechanism
from headwater.secret.noise import Noise
from tests.support.runs import same

N = 20_000


def make(epsilon: float = 20.0, d: int = 2, mechanism: str = "cascade", seed: int = 1) -> hw.Synthesizer:
    return hw.Synthesizer(hw.unit_cube(d), epsilon=epsilon, mechanism=mechanism, seed=seed)


def clustered(n: int = N, d: int = 2, seed: int = 0) -> NDArray[np.float64]:
    """Five round clusters of standard deviation 0.03."""
    rng = np.random.default_rng(seed)
    centres = rng.random((5, d))
    return np.clip(centres[rng.integers(5, size=n)] + 0.03 * rng.normal(size=(n, d)), 0, 1)


def is_edge(start: int, synth: hw.Synthesizer) -> bool:
    """Whether some bucket of the plan starts there."""
    plan: Any = synth.plan(start + 1)
    stage = next(stage for stage in plan.stages if stage.start <= start < stage.end)
    return bool((start - stage.start) % stage.timescales[-1].size == 0)


class Listening(Noise):
    """Writes down every address that noise is drawn at."""

    made: ClassVar[list[Listening]] = []

    def __init__(self, seed: int | None = None, *, key: bytes | None = None) -> None:
        super().__init__(seed, key=key)
        self.draws: list[tuple[int, int]] = []
        self.made.append(self)

    def laplace_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> NDArray[np.int64]:
        self.draws += zip(itertools.repeat(int(np.asarray(hi))), np.asarray(lo).tolist(), strict=False)
        return super().laplace_at(scale, hi, lo)


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> list[Listening]:
    """The sources of noise of all runs that are begun or loaded, in this order."""
    monkeypatch.setattr(randomness, "Noise", Listening)
    monkeypatch.setattr(Listening, "made", [])
    return Listening.made


# --- what a window covers --------------------------------------------------------------------------------


@given(
    epsilon=st.sampled_from([1.0, 20.0, 300.0]),
    d=st.integers(1, 3),
    t=st.integers(0, 2000),
    asked=st.lists(st.floats(0, 1), min_size=1, max_size=4),
)
@settings(max_examples=25)
def test_a_window_covers_what_was_asked_from_a_bucket_edge_on(
    epsilon: float, d: int, t: int, asked: list[float]
) -> None:
    synth = make(epsilon, d)
    synth.update(clustered(t, d))
    for fraction in asked:
        since = round(fraction * t)
        release = synth.release(since=since)
        start, end = release.span
        assert start <= since
        assert end == release.t == t
        assert is_edge(start, synth)
        assert release.points().shape == (t - start, d)
        assert release.model.records == t - start
        if since < t:
            assert same(release, synth.release(last=t - since))


@pytest.mark.parametrize("t", [5000, 16384, N])
def test_a_recent_window_is_at_most_a_bucket_longer_than_asked(t: int) -> None:
    """Of the fastest kind in what is open, of the first fast kind in the slow bucket before, else of the slow kind."""
    synth = make()
    synth.update(clustered(t))
    plan: Any = synth.plan(t + 1)
    stage, measure = plan.stages[-1], synth.state.mechanism
    assert isinstance(measure, CascadeMechanism)
    for last in (1, 10, 100, 500, 1000, 2000, t // 2, t - 1):
        start = synth.release(last=last).span[0]
        since = t - last
        if since >= measure.start:
            longest = stage.timescales[1].size + stage.timescales[-1].size
        elif since >= measure.history.slow[-1].start:
            longest = measure.history.recent[0].points
        else:
            longest = stage.timescales[0].size
        assert since - longest <= start <= since


@pytest.mark.parametrize("t", [0, 1, 7, 8, 100, 4097])
def test_a_window_of_everything_is_the_whole_release(t: int) -> None:
    synth = make()
    synth.update(clustered(t))
    whole = synth.release()
    assert whole.span == (0, t)
    for window in (synth.release(since=0), synth.release(last=max(t, 1)), synth.release(last=t + 1000)):
        assert same(window, whole)
    assert same(synth.release(since=min(t, 7)), whole), "the first bucket starts at 0"


def test_windows_change_nothing_and_draw_nothing_that_releases_do_not(listening: list[Listening]) -> None:
    """Same addresses, each once, whether or not windows are asked for; the releases stay the same."""
    x = clustered(5000)
    plain, windowed = make(), make()
    draws, also = listening
    for part in np.array_split(x, 12):
        plain.update(part)
        windowed.update(part)
        before = plain.release()
        assert same(before, windowed.release())
        for last in (1, 50, 700, windowed.t):
            first = windowed.release(last=last)
            assert same(first, windowed.release(last=last))
        windowed.release(since=windowed.t // 3)
        assert same(before, windowed.release())
    assert draws.draws == also.draws
    assert len(set(draws.draws)) == len(draws.draws)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"last": 5, "since": 5}, ValueError, "not both"),
        ({"last": 0}, ValueError, "last must be at least 1"),
        ({"last": -3}, ValueError, "last must be at least 1"),
        ({"since": -1}, ValueError, "since must lie between 0 and"),
        ({"since": 101}, ValueError, "since must lie between 0 and"),
        ({"last": 2.5}, TypeError, "must be a whole number"),
        ({"since": 1.5}, TypeError, "must be a whole number"),
        ({"last": True}, TypeError, "must be a whole number"),
        ({"last": "5"}, TypeError, "must be a whole number"),
    ],
)
def test_windows_that_are_none_are_refused(asked: dict[str, int], error: type[Exception], message: str) -> None:
    synth = make()
    synth.update(clustered(100))
    with pytest.raises(error, match=message):
        synth.release(**asked)
    assert synth.release(since=np.int64(50)).span == synth.release(last=np.int64(50)).span  # type: ignore[arg-type]


def test_the_papers_mechanism_has_no_windows_and_takes_no_counts() -> None:
    synth = make(mechanism="paper")
    synth.update(clustered(100))
    for asked in ({"last": 5}, {"since": 5}):
        with pytest.raises(ValueError, match="has no windows"):
            synth.release(**asked)
    assert same(synth.release(last=100), synth.release())
    with pytest.raises(ValueError, match="counted records need mechanism='cascade' or 'marginals'"):
        synth.bucket(0)
    with pytest.raises(ValueError, match="has no plan to print"):
        synth.plan()


# --- long runs -------------------------------------------------------------------------------------------


ENDS = [5, 8, 17, 100, 1000, 4095, 4096, 4097, 4128, 4300, 5120, 5121, 9000, 12_345, 16_384, 18_000, N]


@pytest.mark.parametrize(("d", "epsilon"), [(2, 20.0), (1, 5.0), (3, 40.0)])
def test_a_run_that_is_saved_and_loaded_all_the_time_is_the_same_run(d: int, epsilon: float, tmp_path: Path) -> None:
    """At bucket edges, just beside them and in the middle, with fast buckets measured before or not."""
    x = clustered(N if d == 2 else 6000, d)
    straight = make(epsilon, d)
    broken = straight
    for i, end in enumerate(end for end in ENDS if end <= len(x)):
        part = x[straight.t : end]
        if broken is not straight:
            broken.update(part)
        straight.update(part)
        if i % 2:
            straight.release()
        broken.save(tmp_path / "state")
        broken = hw.Synthesizer.load(tmp_path / "state")
        for last in (end, end // 2 + 1, 40):
            assert same(straight.release(last=last), broken.release(last=last))


def test_saving_measures_nothing_and_loading_draws_the_same_addresses(
    tmp_path: Path, listening: list[Listening]
) -> None:
    synth = make()
    synth.update(clustered(5000))
    (noise,) = listening
    noise.draws.clear()
    synth.save(tmp_path / "state")
    assert noise.draws == []
    loaded = hw.Synthesizer.load(tmp_path / "state")
    _, again = listening
    assert same(synth.release(), loaded.release())
    assert set(noise.draws) <= set(again.draws)  # some were measured before
    assert noise.draws != []


def test_a_loaded_run_keeps_its_trees_even_if_trees_are_now_chosen_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fast buckets may be published already: over another tree, the same noise would show what it should hide."""
    synth = make()
    synth.update(clustered(5000))
    before = synth.release()
    synth.save(tmp_path / "state")
    monkeypatch.setattr(plan_module, "MIN_DEVIATIONS", 12.0)
    loaded = hw.Synthesizer.load(tmp_path / "state")
    assert same(before, loaded.release())
    other = make()
    other.update(clustered(5000))
    assert not same(before, other.release())


def test_a_state_of_another_plan_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets of other sizes or budgets would spend ε again on points that have spent it."""
    synth = make()
    synth.update(clustered(5000))
    synth.save(tmp_path / "state")
    for name, value in (("SHARE", 0.3), ("FASTER", 4), ("FINE", 1.0), ("SLOW", 2)):
        with monkeypatch.context() as patch:
            patch.setattr(plan_module, name, value)
            with pytest.raises(hw.FileRefusedError, match="another plan"):
                hw.Synthesizer.load(tmp_path / "state")
    assert hw.Synthesizer.load(tmp_path / "state").t == 5000


# --- accuracy --------------------------------------------------------------------------------------------
