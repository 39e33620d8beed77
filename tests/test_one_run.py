"""A run is one run: not copied, not counted in part, the same after loading; and what it does not have is refused."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import headwater as hw
from headwater.public import files
from headwater.public import release as release_module
from headwater.secret.noise import Noise

ONLINE = ("cascade", "paper")


def begun(mechanism: str = "cascade", epsilon: float = 8.0) -> hw.Synthesizer:
    synth = hw.Synthesizer(hw.unit_cube(2), epsilon=epsilon, mechanism=mechanism, seed=3)
    synth.update(np.random.default_rng(0).random((100, 2)))
    return synth


@pytest.mark.parametrize("mechanism", ONLINE)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_run_is_not_copied(mechanism: str, duplicate: object) -> None:
    """Two copies would put the same noise on different records."""
    with pytest.raises(TypeError, match=r"cannot be copied or pickled.*save\(\).*Synthesizer\.load\(\)"):
        duplicate(begun(mechanism))  # type: ignore[operator]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forking beside threads is the point
@pytest.mark.parametrize("number", [None, 7])
@pytest.mark.parametrize("mechanism", ONLINE)
def test_a_forked_child_does_not_go_on_with_the_run_of_its_parent(
    mechanism: str, number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parent and child would put the same noise on different records. Encoding draws nothing, and is left to both.

    Namespaces can give the child the ``number`` of its parent.
    """
    if number is not None:
        monkeypatch.setattr(os, "getpid", lambda: number)
    synth, more = begun(mechanism), np.full((10, 2), 0.5)
    rows = synth.encode(more)
    uses: list[Callable[[], object]] = [
        lambda: synth.update(more),
        lambda: synth.take(rows),
        synth.release,
        synth.measured,
        synth.to_bytes,
    ]
    child = os.fork()
    if child == 0:
        refused = 0
        try:
            for use in uses:
                try:
                    use()
                except RuntimeError as error:
                    refused += "forked process" in str(error)
            same = np.array_equal(synth.encode(more).rows, rows.rows) and synth.t == 100
        finally:
            os._exit(0 if refused == len(uses) and same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for use in uses:  # the parent goes on
        use()
    assert synth.t == 120


@pytest.mark.parametrize(("d", "epsilon", "times"), [(1, 8.0, (1500, 5250)), (2, 8.0, (2500, 3000, 3500, 6000))])
def test_expected_errors_are_bit_for_bit_the_same_after_loading(d: int, epsilon: float, times: tuple[int, ...]) -> None:
    """Neighbouring buckets over equal trees are added up, also where the trees are two objects that loading makes one.

    At these times there are such trees: grouping by identity gives other sums after loading, in the last bits.
    """
    synth, rng = hw.Synthesizer(hw.unit_cube(d), epsilon=epsilon, seed=3), np.random.default_rng(0)
    for t in range(250, times[-1] + 1, 250):
        synth.update(rng.beta(0.5, 3, (250, d)))
        synth.release()
        if t in times:
            loaded = hw.Synthesizer.from_bytes(synth.to_bytes())
            for window in (None, 600):
                one, other = synth.release(last=window), loaded.release(last=window)
                assert one.expected_error() == other.expected_error()
                assert np.array_equal(one.points(), other.points())


@pytest.mark.parametrize("name", ["magic", "[/nothing]", "", "cascade "])
def test_a_release_of_a_mechanism_that_does_not_exist_is_refused(tmp_path: Path, name: str) -> None:
    """Its file is whole and has the right checksum: only the name is made up."""
    path = tmp_path / "release.hw"
    begun().release().save(path)
    header, arrays = files.read(path, release_module._BANNER)
    path.write_bytes(files.pack(release_module._BANNER, header | {"mechanism": name}, arrays))
    with pytest.raises(hw.FileRefusedError, match="mechanism"):
        hw.Release.load(path)


def test_the_noise_of_a_run_is_its_own() -> None:
    """Without a seed no two runs share a key."""
    keys = {hw.Synthesizer(hw.unit_cube(1), epsilon=1.0).state.noise.key for _ in range(3)}
    assert len(keys | {Noise().key}) == 4
