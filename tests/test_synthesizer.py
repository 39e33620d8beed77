"""The public face: batches, edges, bad input, saving and loading."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import headwater as hw
from headwater.public import protocol as registry
from headwater.secret.mechanism import mechanism_class
from tests.support.runs import same

every_mechanism = pytest.mark.parametrize("mechanism", registry.online())


def make(d: int = 2, epsilon: float = 1.0, mechanism: str = "paper", seed: int | None = 1) -> hw.Synthesizer:
    return hw.Synthesizer(hw.unit_cube(d), epsilon=epsilon, mechanism=mechanism, seed=seed)


def crowd(n: int, d: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).beta(2, 5, size=(n, d))


@every_mechanism
@pytest.mark.parametrize(("d", "epsilon"), [(1, 0.01), (2, 50.0), (3, 1.0), (50, 1.0)])
def test_a_release_holds_exactly_t_points_of_the_cube(mechanism: str, d: int, epsilon: float) -> None:
    synth = make(d, epsilon, mechanism)
    x = crowd(700, d)
    for end in (0, 1, 2, 3, 50, 700):
        synth.update(x[synth.t : end])
        points = synth.release().points()
        assert points.shape == (end, d)
        assert points.dtype == np.float64
        assert ((points >= 0) & (points <= 1)).all()


def test_runs_without_a_seed_differ_and_with_a_seed_repeat() -> None:
    releases = []
    for seed in (None, None, 5, 5, 6):
        synth = make(epsilon=1.0, seed=seed)
        synth.update(crowd(500))
        releases.append(synth.release())
    assert not same(releases[0], releases[1])
    assert same(releases[2], releases[3])
    assert not same(releases[2], releases[4])


def test_a_seed_warns_that_it_protects_nobody() -> None:
    with pytest.warns(hw.SeededRunWarning, match="protects nobody"):
        make(seed=0)
    with pytest.warns(hw.SeededRunWarning):
        hw.pmm([[0.5, 0.5]], hw.unit_cube(2), epsilon=1.0, seed=0)


@every_mechanism
def test_a_huge_budget_publishes_the_data_nearly_as_it_is(mechanism: str) -> None:
    """With ε = 10^4 most levels are empty, the noise is gone, and cells are tiny.

    Columns are within 0.015 of the data on average (other records of the same law are 0.02 to 0.035 away), and of a
    mechanism that keeps cells, so is each point.
    """
    synth = make(epsilon=1e4, mechanism=mechanism)
    x = crowd(64)
    synth.update(x)
    points = synth.release().points()
    assert np.abs(np.sort(points, axis=0) - np.sort(x, axis=0)).mean() < 0.015
    if mechanism != "marginals":
        moved = np.abs(points[:, None] - x[None]).max(axis=2)
        assert np.median(moved.min(axis=1)) < 0.02


BAD: dict[str, tuple[object, type[Exception], str]] = {
    "NaN": ([[0.1, 0.2], [0.5, math.nan]], ValueError, "row 1, axis 1: the value is NaN"),
    "infinity": ([[math.inf, 0.2]], ValueError, "row 0, axis 0: the value is infinite"),
    "minus infinity": ([[-math.inf, 0.2]], ValueError, "row 0, axis 0: the value is infinite"),
    "above": ([[0.1, 1.0000001]], ValueError, "row 0, axis 1: the value is above 1"),
    "below": ([[-1e-300, 0.1]], ValueError, "row 0, axis 0: the value is below 0"),
    "too wide": ([[0.1, 0.2, 0.3]], ValueError, r"shape \(n, 2\), not \(1, 3\)"),
    "too narrow": ([0.1], ValueError, r"shape \(n, 2\), not \(1,\)"),
    "a number": (0.5, ValueError, r"shape \(n, 2\), not \(\)"),
    "too deep": (np.zeros((2, 2, 2)), ValueError, r"shape \(n, 2\), not \(2, 2, 2\)"),
    "ragged": ([[0.1, 0.2], [0.3]], ValueError, "rows have different lengths"),
    "strings": ([["a", "b"]], TypeError, "not strings"),
    "number strings": ([["0.1", "0.2"]], TypeError, "not strings"),
    "objects": ([[None, 0.2]], TypeError, "not Python objects"),
    "booleans": ([[True, False]], TypeError, "not booleans"),
    "complex": ([[1j, 0.2]], TypeError, "not complex numbers"),
    "dates": (np.zeros((1, 2), "M8[s]"), TypeError, "not dates"),
    "masked": (np.ma.masked_array([[0.1, 0.2]], mask=[[True, False]]), TypeError, "masked"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_points_are_refused_and_change_nothing(case: str) -> None:
    points, error, message = BAD[case]
    synth = make()
    synth.update(crowd(100))
    before = synth.to_bytes()
    with pytest.raises(error, match=message):
        synth.update(points)
    assert synth.to_bytes() == before


@pytest.mark.parametrize("epsilon", [0, -1, 0.0, -0.5, math.nan, math.inf, -math.inf])
def test_budgets_that_are_no_budgets_are_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be positive and finite"):
        make(epsilon=epsilon)
    with pytest.raises(ValueError, match="epsilon must be positive and finite"):
        hw.pmm([[0.5, 0.5]], hw.unit_cube(2), epsilon=epsilon)


@pytest.mark.parametrize("epsilon", ["1", None, [1.0], True])
def test_budgets_that_are_no_numbers_are_refused(epsilon: object) -> None:
    with pytest.raises(TypeError, match="epsilon must be a number"):
        make(epsilon=epsilon)  # type: ignore[arg-type]


def test_unknown_names_and_schemas_are_refused() -> None:
    with pytest.raises(ValueError, match="mechanism must be one of auto, cascade, marginals, paper, not 'magic'"):
        make(mechanism="magic")
    with pytest.raises(ValueError, match="mechanism must be one of auto, cascade, marginals, paper, not 'marginal'"):
        hw.outlook(hw.unit_cube(2), epsilon=1.0, records=1000, mechanism="marginal")
    with pytest.raises(TypeError, match="schema must be a Schema"):
        hw.Synthesizer(2, epsilon=1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="schema must be a Schema"):
        hw.pmm([[0.5, 0.5]], 2, epsilon=1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mechanism must be one of"):
        hw.Synthesizer(hw.unit_cube(2), epsilon=1.0, mechanism=["paper"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="seed must be a whole number"):
        make(seed=1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="until must be a whole number"):
        make(mechanism="cascade").plan("far")  # type: ignore[arg-type]
    assert hw.unit_cube(np.int64(2)) == hw.unit_cube(2)  # type: ignore[arg-type]


def test_one_point_is_taken_as_well() -> None:
    line, square = make(1), make(2)
    line.update(0.5)
    line.update([0.1, 0.2, 0.3])
    line.update(np.array([[0.4]]))
    assert line.t == 5
    square.update([0.5, 0.5])
    square.update(np.empty((0, 2)))
    square.update([])
    square.update([[0, 1]])
    assert square.t == 2


def test_a_state_file_is_for_its_owner_only_and_says_so(tmp_path: Path) -> None:
    synth = make()
    synth.save(tmp_path / "state.hw")
    assert stat.S_IMODE((tmp_path / "state.hw").stat().st_mode) == 0o600
    assert (tmp_path / "state.hw").read_bytes().startswith(b"headwater state 3: SECRET")
    assert os.listdir(tmp_path) == ["state.hw"]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[:-1],
    "half": lambda data: data[: len(data) // 2],
    "nothing left": lambda data: b"",
    "longer": lambda data: data + b"x",
    "flipped": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
    "newer": lambda data: data.replace(b"state 3:", b"state 4:").replace(b"release 2:", b"release 3:"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused(damage: str, tmp_path: Path) -> None:
    synth = make()
    synth.update(crowd(300))
    synth.save(tmp_path / "state")
    synth.release().save(tmp_path / "release")
    loads = {"state": hw.Synthesizer.load, "release": hw.Release.load}
    for name, load in loads.items():
        path = tmp_path / name
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
        with pytest.raises(hw.FileRefusedError, match=name):
            load(path)


def test_a_release_is_not_a_state(tmp_path: Path) -> None:
    synth = make()
    synth.release().save(tmp_path / "file")
    with pytest.raises(hw.FileRefusedError, match="not a headwater state"):
        hw.Synthesizer.load(tmp_path / "file")


def test_a_save_through_a_link_leaves_no_older_state_under_the_name_behind_it(tmp_path: Path) -> None:
    synth = make()
    synth.save(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    synth.update([[0.5, 0.5]])
    synth.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert hw.Synthesizer.load(tmp_path / "real").t == synth.t


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synth = make()
    synth.save(tmp_path / "state")
    before = (tmp_path / "state").read_bytes()
    synth.update(crowd(10))
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        synth.save(tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == before
    assert os.listdir(tmp_path) == ["state"]


@every_mechanism
def test_a_billion_points_on_paper(mechanism: str) -> None:
    """Nothing is sized by the horizon: with the first split 10^9 points away, a point costs at most a byte.

    Marginals keep two bytes for each column.
    """
    synth = make(epsilon=1e-9, mechanism=mechanism)
    for _ in range(20):
        synth.update(np.full((100_000, 2), 0.25))
    assert synth.release().points().shape == (2_000_000, 2)
    _, arrays = synth.state.mechanism.state()
    most = 4 if mechanism == "marginals" else 1
    assert sum(array.nbytes for array in arrays.values()) < most * 2_000_000 + 10_000


def test_saving_where_no_folder_is_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        make().save(tmp_path / "nowhere" / "state.hw")


@every_mechanism
def test_a_state_of_another_rule_of_measuring_is_refused_with_the_way_out(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    synth = hw.Synthesizer(hw.unit_cube(2), epsilon=1.0, mechanism=mechanism, seed=0)
    synth.update(np.full((20, 2), 0.3))
    saved, kind = synth.to_bytes(), mechanism_class(mechanism)
    monkeypatch.setattr(kind, "version", kind.version + 1)
    with pytest.raises(hw.FileRefusedError, match=rf"another rule of {mechanism}.*begin a new run"):
        hw.Synthesizer.from_bytes(saved)
