"""Numbers without declared decimals come out with few digits, which follow from the bounds alone."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.public.folder import publish
from headwater.public.rounding import DIGITS, Rounding

BOUNDS = [(0, 1), (0, 1000), (-5, 5), (1990, 2020), (1e6, 1e6 + 1), (0, 1e99), (0, 1e-30), (-5e307, 5e307), (0, 5e-324)]


def digits(number: float) -> int:
    return len(Decimal(repr(number)).normalize().as_tuple().digits)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_values_are_near_and_short_and_come_back_as_they_are(low: float, high: float, missing: bool) -> None:
    """Within a millionth of the range, and exactly the same when a release is read and written again."""
    column = hw.Number(low, high, missing=missing)
    shares = np.concatenate([[0, 1, 1e-7, 1e-13], np.random.default_rng(0).random(500)])
    found = column.raw(shares.copy())
    exact = shares * high + (1 - shares) * low
    assert (np.abs(found - exact) <= 0.500001e-6 * (high - low) + 5e-324).all()
    assert ((found >= low) & (found <= high)).all()
    assert max(map(digits, found.tolist())) <= (13 if low > 1e5 else 9 if low > 1000 else DIGITS + 1)
    again = column.decode(column.encode(found))[0]
    assert again.tolist() == found.tolist()


@given(st.floats(1e-9, 1e9))
def test_a_logarithmic_scale_keeps_six_significant_digits(number: float) -> None:
    column = hw.Number(1e-9, 1e9, scale="log")
    found = column.decode(column.encode([number]))[0][0]
    assert found == pytest.approx(number, rel=5.01e-6)
    assert digits(float(found)) <= DIGITS


def test_values_near_zero_of_a_range_far_too_wide_are_told_apart() -> None:
    """Else bounds a million times too wide would make two values of a column."""
    column = hw.Number(0, 1e6)
    numbers = np.linspace(0.1, 1, 1000)
    assert np.abs(column.decode(column.encode(numbers))[0] - numbers).max() <= 1e-6


def test_bounds_come_out_as_they_are_declared() -> None:
    column = hw.Number(0.123456789012, 7.000000000123)
    assert column.decode(column.encode([-1.0, 9.0]))[0].tolist() == [0.123456789012, 7.000000000123]


def test_releases_have_few_digits_in_every_form(tmp_path: Path) -> None:
    synth = hw.Synthesizer(hw.Schema(x=hw.Number(0, 1000)), epsilon=1.0, seed=1)
    synth.update({"x": np.random.default_rng(0).gamma(2, 60, 500)})
    release = synth.release()
    release.to_csv(tmp_path / "x.csv")
    written = [float(line) for line in (tmp_path / "x.csv").read_text().splitlines()[1:]]
    for numbers in (written, release.to_pandas()["x"].tolist(), release.sample(300, kind="columns")["x"].tolist()):
        assert max(map(digits, numbers)) <= DIGITS


def test_coordinates_of_a_cube_are_not_rounded() -> None:
    points = np.random.default_rng(0).random((100, 2))
    table = hw.unit_cube(2).decode(points, "columns")
    assert np.array_equal(np.stack([table["x0"], table["x1"]], axis=1), points)


@pytest.mark.parametrize("limits", [(0.123456789, 0.5), (0.1, 0.123456789), (None, 0.123456789), (-0.0123456789, 1)])
def test_ranges_hold_after_rounding(limits: tuple[float | None, float]) -> None:
    """An end with more digits than values have is not overstepped by rounding."""
    synth = hw.Synthesizer(hw.Schema(x=hw.Number(-1, 1)), epsilon=5.0, seed=1)
    synth.update({"x": np.random.default_rng(0).normal(0.123456789, 1e-6, 3000)})
    found = synth.release().sample(500, where={"x": limits}, kind="columns")["x"]
    low, high = limits
    assert (found <= high).all()
    assert low is None or (found >= low).all()


def test_a_release_that_an_earlier_version_published_with_all_digits_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same run publishes the same records: more digits of them are no other content."""
    synth = hw.Synthesizer(hw.Schema(x=hw.Number(0, 1000), y=hw.Number(0, 1, missing=True)), epsilon=1.0, seed=1)
    synth.update({"x": np.random.default_rng(0).gamma(2, 60, 500), "y": [None, 0.25] * 250})
    release = synth.release()
    for form in ("parquet", "csv"):
        with monkeypatch.context() as patch:
            patch.setattr(Rounding, "apply", lambda self, numbers: numbers.copy())
            before = publish(release, tmp_path / form, format=form)
        content = (before / f"data.{form}").read_bytes()
        assert publish(release, tmp_path / form, format=form) == before
        assert (before / f"data.{form}").read_bytes() == content
