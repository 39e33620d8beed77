"""A number of records that is expected moves the ends of stages, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwater as hw

SCHEMA = hw.Schema(
    a=hw.Number(0, 1), b=hw.Integer(0, 9, missing=True), c=hw.Boolean(), d=hw.Category("x", "y", "z"), e=hw.Number(0, 1)
)
EXPECT, EPSILON = 900, 16.0


def frame(records: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    a = rng.random(records)
    few = {"b": (10 * a).astype(np.int64), "c": rng.random(records) < a, "d": rng.choice(["x", "y", "z"], records)}
    return {"a": a, **few, "e": a**2}


def start(expect: int | None = EXPECT, epsilon: float = EPSILON, records: int = 0) -> hw.Synthesizer:
    synth = hw.Synthesizer(SCHEMA, epsilon=epsilon, expect=expect, seed=1)
    synth.update(frame(records))
    return synth


def test_all_that_is_expected_is_measured_when_it_has_arrived() -> None:
    synth = start(records=EXPECT)
    plan: Any = synth.plan(EXPECT)
    assert {stage.end for stage in plan.stages} >= {EXPECT}
    assert max(span.end for span in synth.state.mechanism.kept()) == EXPECT
    assert hw.Synthesizer.from_bytes(synth.to_bytes()).expect == synth.expect == EXPECT


def test_a_number_that_is_none_is_refused() -> None:
    for expect in (0, -5):
        with pytest.raises(ValueError, match="from 1 on"):
            start(expect)
    with pytest.raises(TypeError, match="expect must be a whole number, not float"):
        start(1e5)  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", ["cascade", "paper"])
def test_other_mechanisms_may_be_told_and_do_as_before(mechanism: str) -> None:
    points, made = np.random.default_rng(0).random((300, 2)), []
    for expect in (None, 300):
        synth = hw.Synthesizer(hw.unit_cube(2), epsilon=2.0, mechanism=mechanism, seed=1, expect=expect)
        synth.update(points)
        made.append(synth.release().points().tobytes())
    assert made[0] == made[1]
