"""Places inside bins: even in each bin whatever decides their order, and in the order that measured pairs give."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.public.marginals.inside import even, positions, truncated
from headwater.public.marginals.tree import Forest
from headwater.public.partition import Floats


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_places_are_even_in_every_bin_and_in_the_order_of_the_values(power: float) -> None:
    rng = np.random.default_rng(3)
    bins = rng.integers(0, 4, 8000).astype(np.uint16)
    values: Floats = rng.random(8000) ** power
    places = even(bins, values)
    assert 0 <= places.min() <= places.max() < 1
    for one in range(4):
        here = np.argsort(values[bins == one])
        assert (np.diff(places[bins == one][here]) >= 0).all()
        assert np.abs(places[bins == one][here] - np.linspace(0, 1, len(here))).max() < 0.03


@pytest.mark.parametrize(("centre", "scale"), [(0.5, 0.1), (0.1, 0.03), (-1.0, 0.2), (1.2, 5.0)])
def test_truncated_numbers_have_the_law_of_a_logistic_variable_cut_off(centre: float, scale: float) -> None:
    uniform, grid = np.linspace(0, 1, 5001)[1:-1], np.linspace(0, 1, 100_001)
    at = truncated(uniform, np.full(len(uniform), centre), np.full(len(uniform), scale))
    law = np.cumsum(np.cosh((grid - centre) / (2 * scale)) ** -2.0)
    assert np.abs(np.interp(np.sort(at), grid, law / law[-1]) - uniform).max() < 0.001


def test_far_centres_are_no_trouble() -> None:
    for centre in (-1e6, -40.0, 40.0, 1e6):
        at = truncated(np.array([0.0, 0.5, 1 - 2**-53]), np.full(3, centre), np.full(3, 1e-3))
        assert np.isfinite(at).all()
        assert np.abs(at - (centre > 0)).max() < 0.05


def coupled(first: Floats, second: Floats, bins: int) -> tuple[float, float]:
    """Rank correlations of two columns as they are, and as they are put together from bins and their table alone."""
    rng = np.random.default_rng(1)
    codes = np.array([np.minimum(column * bins, bins - 1) for column in (first, second)]).astype(np.uint16)
    table = np.zeros((bins, bins))
    np.add.at(table, tuple(codes), 1 / len(first))
    places = positions(codes, Forest([(0, 1)], 2), {(0, 1): table}, (bins, bins), (True, True), (True, True), rng)
    made = [codes[column] + places[column] for column in (0, 1)]
    return tuple(float(np.corrcoef(*pair)[0, 1]) for pair in ((first, second), made))  # type: ignore[return-value]


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05, 0.3])
@pytest.mark.parametrize("sign", [1, -1])
def test_dependence_inside_cells_is_as_strong_as_tables_say(noise: float, sign: int) -> None:
    """Independent inside cells, eight bins of a diagonal have a correlation of .983 at most."""
    rng = np.random.default_rng(2)
    first, more = rng.random((2, 20_000))
    second = np.argsort(np.argsort(sign * first + noise * (more - 0.5))) / 20_000
    true, made = coupled(first, second, 8)
    assert abs(true - made) < 0.009


def test_columns_without_dependence_stay_without() -> None:
    first, second = np.random.default_rng(5).random((2, 20_000))
    assert abs(coupled(first, second, 4)[1]) < 0.03
