"""A number of records that is expected moves the ends of stages, and nothing else."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater.run import FolderSink, Run, RunConfig, Schedule
from headwater.run.lock import StoreError

SCHEMA = hw.Schema(
    a=hw.Number(0, 1), b=hw.Integer(0, 9, missing=True), c=hw.Boolean(), d=hw.Category("x", "y", "z"), e=hw.Number(0, 1)
)
EXPECT, EPSILON = 900, 16.0


def frame(records: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    a = rng.random(records)
    return {
        "a": a,
        "b": (10 * a).astype(np.int64),
        "c": rng.random(records) < a,
        "d": rng.choice(["x", "y", "z"], records),
        "e": a**2,
    }


def rows(of: dict[str, Any], start: int, end: int) -> dict[str, Any]:
    return {name: values[start:end] for name, values in of.items()}


def start(expect: int | None = EXPECT, epsilon: float = EPSILON) -> hw.Synthesizer:
    return hw.Synthesizer(SCHEMA, epsilon=epsilon, expect=expect, seed=1)


def test_batches_saving_and_counting_elsewhere_give_what_the_records_in_order_give(tmp_path: Path) -> None:
    """With two releases after the end of the expected records, which is no power of two."""
    records, found = frame(1500), dict[str, list[bytes]]()
    for how in ("whole", "pieces", "saved", "counted"):
        synth, ends = start(), [0, 899, 900, 1500] if how == "whole" else [0, 1, 100, 450, 899, 900, 1200, 1500]
        found[how] = []
        for first, last in pairwise(ends):
            part = rows(records, first, last)
            if how == "counted":
                synth.update_counts(synth.histogram(part, np.arange(first, last)))
            else:
                synth.update(part)
            if how == "saved":
                synth.save(tmp_path / "state.hw")
                synth = hw.Synthesizer.load(tmp_path / "state.hw")
            if last in (899, 900, 1500):
                found[how].append(synth.release().points().tobytes())
        assert synth.expect == EXPECT
    assert found["whole"] == found["pieces"] == found["saved"] == found["counted"]
    plain = start(None)
    plain.update(records)
    assert plain.release().points().tobytes() != found["whole"][-1]


def test_all_that_is_expected_is_measured_when_it_has_arrived() -> None:
    synth = start()
    synth.update(frame(EXPECT))
    assert {stage.end for stage in synth.plan(EXPECT).stages} >= {EXPECT}
    assert max(table.end for table in synth._mechanism.measured(0, 0).tables) == EXPECT  # type: ignore[attr-defined]


def test_a_release_of_the_expected_number_has_a_smaller_expected_error() -> None:
    """Just before a power of two; nine tenths are enough here, where a half is usual."""
    records, found = frame(8000), list[float]()
    for expect in (None, 8000):
        synth = start(expect, epsilon=1.0)
        synth.update(records)
        found.append(float(synth.release().expected_error().parts["one-way"][0]))
    assert found[1] < 0.9 * found[0]


@pytest.mark.parametrize("expect", [1, 50, 900, 100_000])
def test_every_record_costs_at_most_epsilon(expect: int) -> None:
    synth = start(expect)
    for t in (0, 1, 49, 50, 700, 899, 900, 10**5 - 1, 10**5, 10**9):
        assert synth.ledger(t).total <= EPSILON


def test_a_state_goes_on_with_what_was_expected_and_with_nothing_else(tmp_path: Path) -> None:
    def opened(expect: int | None, name: str = "run") -> Run:
        config, schedule = RunConfig(SCHEMA, EPSILON, seed=1, expect=expect), Schedule(records=300)
        return Run.open(config, FolderSink(tmp_path / name), state=tmp_path / f"{name}.state", schedule=schedule)

    records = frame(1200)
    with opened(EXPECT) as run:
        run.take(rows(records, 0, 500))
    with opened(None) as run:
        run.take(rows(records, 500, 1200))
        assert run.synth.expect == EXPECT
        found = run.synth.release().points().tobytes()
    with opened(EXPECT, "undisturbed") as run:
        run.take(records)
        assert run.synth.release().points().tobytes() == found
    with pytest.raises(StoreError, match=r"another expect \(--expect 900\)"):
        opened(901)


@pytest.mark.parametrize(("expect", "problem"), [(0, "from 1 on"), (-5, "from 1 on")])
def test_a_number_that_is_none_is_refused(expect: int, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        start(expect)


def test_a_number_that_is_not_whole_is_refused() -> None:
    with pytest.raises(TypeError, match="expect must be a whole number, not float"):
        start(1e5)  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", ["cascade", "paper"])
def test_other_mechanisms_may_be_told_and_do_as_before(mechanism: str) -> None:
    points = np.random.default_rng(0).random((300, 2))
    made = []
    for more in ({}, {"expect": 300}):
        synth = hw.Synthesizer(hw.unit_cube(2), epsilon=2.0, mechanism=mechanism, seed=1, **more)  # type: ignore[arg-type]
        synth.update(points)
        made.append(synth.release().points().tobytes())
        assert synth.expect is None
    assert made[0] == made[1]
