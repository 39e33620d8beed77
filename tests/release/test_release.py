"""A release cannot be changed, can be kept, and says what it is."""

from __future__ import annotations

import dataclasses
import stat
from pathlib import Path

import numpy as np
import pytest

import headwater as hw
from headwater.public.cells import CellModel, sample
from headwater.public.partition import Partition


def a_release(n: int = 500, d: int = 2) -> hw.Release:
    synth = hw.Synthesizer(hw.unit_cube(d), epsilon=4.0, mechanism="paper", seed=1)
    synth.update(np.random.default_rng(0).random((n, d)))
    return synth.release()


def cells(release: hw.Release) -> CellModel:
    assert isinstance(release.model, CellModel)
    return release.model


def test_it_cannot_be_changed() -> None:
    release = a_release()
    with pytest.raises(dataclasses.FrozenInstanceError):
        release.start = 3  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        cells(release).counts[0] = 7
    release.points()[:] = 0
    assert release.points().any()


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    release = a_release()
    release.save(tmp_path / "r")
    loaded = hw.Release.load(tmp_path / "r")
    assert loaded.facts == release.facts
    assert np.array_equal(loaded.points(), release.points())
    assert stat.S_IMODE((tmp_path / "r").stat().st_mode) == 0o644


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_bound_states_its_rate_and_that_the_constant_is_unknown(d: int) -> None:
    bound = a_release(d=d).error_bound
    assert bound.constant is None
    assert "unknown" in str(bound)
    x = 4.0 * 500
    rate = np.log(x) ** 3 * np.log(500) ** 1.5 / x if d == 1 else np.log(500) * x ** (-1 / d)
    assert bound.rate == pytest.approx(rate)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_cascade_promises_the_rate_of_its_proof(d: int) -> None:
    synth = hw.Synthesizer(hw.unit_cube(d), epsilon=4.0, seed=0)
    synth.update(np.random.default_rng(0).random((500, d)))
    bound = synth.release().error_bound
    assert bound.constant is None
    assert bound.rate == pytest.approx(2000 ** (-1 / d) * (np.sqrt(np.log(2000)) if d == 2 else 1))


@pytest.mark.parametrize("mechanism", ["paper", "cascade"])
def test_tables_have_no_theorem_unless_they_are_a_cube(mechanism: str) -> None:
    number = hw.Number(0, 1)
    others = {hw.Number(3, 7): True, hw.Category("a", "b"): False, hw.Number(0, 1, missing=True): False}
    for other, covered in {**others, hw.Number(0, 1, weight=3): False}.items():
        synth = hw.Synthesizer(hw.Schema(x=number, y=other), epsilon=1.0, mechanism=mechanism, seed=0)
        assert (synth.release().error_bound.constant is None) == covered


@pytest.mark.parametrize("even", [True, False])
def test_points_stay_inside_their_cells(even: bool) -> None:
    """Even at depths where a cell is a few floats wide."""
    for d, depth in ((1, 52), (2, 20), (3, 60)):
        partition = Partition(d)
        cells = np.array([0, (1 << depth) - 1, (1 << depth) // 3], dtype=np.uint64)
        points = sample(
            partition, cells, np.full(3, depth), np.array([50, 50, 50]), np.random.default_rng(0), even=even
        )
        assert partition.cells(points, depth).tolist() == np.repeat(cells, 50).tolist()


def test_windows_have_no_theorem_and_a_silent_start_no_promise() -> None:
    synth = hw.Synthesizer(hw.unit_cube(2), epsilon=1.0, seed=0)
    synth.update(np.full((20, 2), 0.25))
    assert synth.release().expected_error().upper == 1.0, "nothing was measured yet"
    synth.update(np.full((5000, 2), 0.25))
    window = synth.release(last=300)
    assert window.error_bound.constant == window.error_bound.rate == 1.0
    first, last = window.span
    assert f"records {first + 1:,} to {last:,}" in str(window)
    assert synth.release().error_bound.rate < 0.5
