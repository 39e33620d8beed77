"""The streams that figures are made from: fixed, in the cube, and what their names say."""

import numpy as np
import pytest

from benchmarks.streams import STREAMS

DIMENSIONS = (1, 2, 3, 5)
CASES = [(name, d) for name in STREAMS for d in DIMENSIONS if name != "flights" or d <= 3]


@pytest.mark.parametrize(("name", "d"), CASES)
def test_points_lie_in_the_half_open_cube(name: str, d: int) -> None:
    points = STREAMS[name](2_000, d)
    assert points.shape == (2_000, d)
    assert points.min() >= 0
    assert points.max() < 1


@pytest.mark.parametrize(("name", "d"), CASES)
def test_a_stream_is_fixed_by_its_seed(name: str, d: int) -> None:
    again, other = STREAMS[name](500, d, seed=3), STREAMS[name](500, d, seed=4)
    assert np.array_equal(STREAMS[name](500, d, seed=3), again)
    assert np.array_equal(again, other) is (name == "flights")


@pytest.mark.parametrize(
    ("name", "first", "last", "mean"),
    [
        ("uniform", [0.636962, 0.269787], [0.081581, 0.321556], [0.505265, 0.492563]),
        ("blobs", [0.881269, 0.015983], [0.45123, 0.882704], [0.61657, 0.350768]),
        ("drift", [0.206287, 0.193395], [0.754529, 0.818461], [0.498503, 0.498694]),
    ],
)
def test_streams_of_earlier_figures_have_not_changed(
    name: str, first: list[float], last: list[float], mean: list[float]
) -> None:
    points = STREAMS[name](1_000, 2)
    for found, known in ((points[0], first), (points[-1], last), (points.mean(axis=0), mean)):
        assert found == pytest.approx(known, abs=1e-5)


def test_a_jump_leaves_its_first_clusters_behind() -> None:
    points = STREAMS["jump"](10_000, 2)
    before, after = points[:5_200], points[5_200:]
    assert np.array_equal(before, STREAMS["blobs"](5_200, 2))
    shares = [np.histogram2d(part[:, 0], part[:, 1], bins=8)[0] / len(part) for part in (before, after)]
    assert np.abs(shares[0] - shares[1]).sum() > 1


def test_flights_come_in_order_of_time_and_no_more_than_there_are() -> None:
    points = STREAMS["flights"](336_776, 2)
    assert np.all(np.diff(points[:500, 1]) >= 0)  # the first day: hours only go up
    assert np.array_equal(points[:10, :1], STREAMS["flights"](10, 1))
    with pytest.raises(ValueError, match="there are 336776 flights"):
        STREAMS["flights"](336_777, 2)
    with pytest.raises(ValueError, match="in 3 dimensions"):
        STREAMS["flights"](10, 5)
