"""The streams that figures are made from: fixed, in the cube, and what their names say."""

import hashlib

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
    ("name", "digest"),
    [("uniform", "c92ea553aae025e5"), ("blobs", "f71e73985ff41f1d"), ("drift", "6859b769d6399478")],
)
def test_the_three_streams_of_the_first_figures_have_not_changed(name: str, digest: str) -> None:
    """To six digits, so that another machine's last bit does not matter."""
    rounded = np.round(STREAMS[name](1_000, 2), 6)
    assert hashlib.sha256(rounded.tobytes()).hexdigest()[:16] == digest


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
