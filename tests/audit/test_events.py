from __future__ import annotations

import numpy as np
import pytest

from headwater.audit.events import Columns, Cut, Value, best_event

N = 2000


def runs(make: dict[str, list[list[Value]]]) -> tuple[list[Columns], list[Columns]]:
    """Two streams' columns, cut into two parts."""
    both = [{name: sides[side] for name, sides in make.items()} for side in (0, 1)]
    first = [{name: values[: N // 2] for name, values in side.items()} for side in both]
    second = [{name: values[N // 2 :] for name, values in side.items()} for side in both]
    return first, second  # type: ignore[return-value]


def normal(seed: int, shift: float = 0.0) -> list[Value]:
    values: list[Value] = (np.random.default_rng(seed).normal(size=N) + shift).tolist()
    return values


def shares(make: dict[str, list[list[Value]]]) -> tuple[str, list[float], int]:
    fit, choose = runs(make)
    event = best_event(fit, choose)
    return str(event), [float(event.holds(side).mean()) for side in choose], event.likelier


def test_a_shifted_number_is_found_among_others() -> None:
    text, (one, other), likelier = shares({"noise": [normal(1), normal(2)], "shifted": [normal(3), normal(4, 3.0)]})
    assert "shifted" in text
    assert likelier == int(other > one)
    assert abs(one - other) > 0.5


def test_one_telling_value_is_found() -> None:
    """A value that only one stream can have, once in ten runs."""
    rare: list[Value] = [7 if i % 10 == 0 else 3 for i in range(N)]
    text, (one, other), likelier = shares({"count": [[3] * N, rare], "noise": [normal(1), normal(2)]})
    assert (one, other, likelier) == (0.0, 0.1, 1)
    assert "count" in text


def test_words_and_absence_are_features() -> None:
    pairs: list[tuple[Value, Value]] = [("a", "b"), (None, "b"), (None, 3.0), (float("nan"), 3.0), (True, False)]
    for here, there in pairs:
        _, (one, other), _ = shares({"word": [[here] * N, [there] * N]})
        assert sorted([one, other]) == [0.0, 1.0]


def test_two_weak_features_are_stronger_together() -> None:
    make = {name: [normal(seed), normal(seed + 1, 1.0)] for name, seed in (("x", 1), ("y", 3), ("z", 5))}
    text, _, _ = shares(make)
    assert text.startswith("log ratio")


def test_streams_that_do_not_differ_give_no_telling_event() -> None:
    _, (one, other), _ = shares({"x": [normal(1), normal(2)], "y": [normal(3), normal(4)]})
    assert abs(one - other) < 0.1


@pytest.mark.parametrize("values", [[1, 2, 3, 10], [1.5] * 4, list(range(500)), [0.0, float("inf"), float("-inf"), 2]])
def test_every_value_of_the_fit_lies_in_a_bin_and_larger_values_in_later_ones(values: list[Value]) -> None:
    cut = Cut.of(values)
    bins = cut.bins(sorted(values))  # type: ignore[type-var]
    assert (np.diff(bins) >= 0).all()
    assert bins.min() >= 0
    assert bins.max() < cut.size


def test_runs_without_features_are_refused() -> None:
    with pytest.raises(ValueError, match="no feature in common"):
        best_event([{}, {}], [{}, {}])
