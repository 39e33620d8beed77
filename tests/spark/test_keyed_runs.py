"""Runs of keys that are opened together; no Spark is needed for that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import headwater as hw
from headwater.run import RunConfig, Schedule
from headwater.spark.keys import KeyedRuns, Keys


def test_keys_of_one_stream_expect_the_same_number_of_records(tmp_path: Path) -> None:
    """Executors count by one plan for all keys: a key that comes later expects what the others were begun with."""
    config = RunConfig(hw.Schema(x=hw.Integer(0, 9), y=hw.Integer(0, 9)), 1.0, "marginals", expect=700)
    places = tmp_path / "states", tmp_path / "out", Schedule.parse("100")
    KeyedRuns.open(Keys("region", ("north", "a.b")), config, *places).close()
    found = KeyedRuns.open(Keys("region", ("west", "north", "a.b")), replace(config, expect=None), *places)
    assert [run.synth.expect for run in found.runs.values()] == [700, 700, 700]
    assert list(found.runs) == [0, 1, 2]
    assert sorted(path.name for path in places[0].glob("*.state")) == ["a%2Eb.state", "north.state", "west.state"]
    found.close()


def test_keys_that_expect_different_numbers_are_refused_together(tmp_path: Path) -> None:
    config = RunConfig(hw.Schema(x=hw.Integer(0, 9), y=hw.Integer(0, 9)), 1.0, "marginals")
    places = tmp_path / "states", tmp_path / "out", Schedule.parse("100")
    KeyedRuns.open(Keys("region", ("north",)), config, *places).close()
    KeyedRuns.open(Keys("region", ("south",)), replace(config, expect=700), *places).close()
    with pytest.raises(ValueError, match="different numbers of records"):
        KeyedRuns.open(Keys("region", ("north", "south")), config, *places)
