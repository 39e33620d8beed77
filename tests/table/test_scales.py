"""Rounded and logarithmic numbers: what goes in comes out with as few digits, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.evaluation.inputs import tables_of
from headwater.public.errors import SchemaError
from headwater.public.folder import folders
from headwater.public.numbers import _logarithms
from headwater.run import FolderSink, Run, RunConfig, Schedule, feed
from headwater.secret.read.source import open_source


@given(st.data())
def test_what_has_these_decimals_comes_back_exactly(data: st.DataObject) -> None:
    decimals = data.draw(st.integers(0, 6))
    low, high = sorted(data.draw(st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=2, unique=True)))
    column = hw.Number(low / 10**decimals, high / 10**decimals, decimals=decimals, missing=data.draw(st.booleans()))
    numbers = [n / 10**decimals for n in data.draw(st.lists(st.integers(low, high), min_size=1))]
    found, _ = column.decode(column.encode(numbers))
    assert found.tolist() == numbers


@given(st.floats(-10, 10), st.sampled_from([0.01, 0.05, 0.25, 0.1, 3]))
def test_the_nearest_step_counts(number: float, step: float) -> None:
    column = hw.Number(-10, 10, step=step)
    found = column.decode(column.encode([number]))[0][0]
    last = -10 + step * ((column.size or 0) - 1)
    assert abs(found - min(number, last)) <= step / 2 + 1e-12
    assert len(repr(float(found))) <= 6
    assert column.encode([found]).tolist() == column.encode([number]).tolist()


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=20))
def test_a_logarithmic_scale_comes_back_and_reads_one_by_one(numbers: list[float]) -> None:
    column = hw.Number(0.001, 1e6, scale="log")
    places = column.encode(numbers)
    assert places.tolist() == [column.encode([number])[0] for number in numbers]
    assert column.decode(places)[0] == pytest.approx(numbers, rel=5.01e-6)
    rounded = hw.Number(0.001, 1e6, scale="log", decimals=3)
    assert rounded.decode(places)[0] == pytest.approx(numbers, abs=0.000501)


def test_a_logarithmic_scale_gives_each_order_of_magnitude_its_room() -> None:
    column = hw.Number(1, 10_000, scale="log")
    assert column.encode([0, 1, 10, 100, 1000, 10_000, 10**9]) == pytest.approx([0, 0, 0.25, 0.5, 0.75, 1, 1])
    assert column.decode(np.array([0.0, 0.5, 1.0]))[0].tolist() == pytest.approx([1, 100, 10_000])


ENCODE = """
import hashlib, numpy as np, headwater as hw
found = hashlib.sha256()
numbers = np.exp(np.random.default_rng(1).uniform(np.log(0.001), np.log(1e6), 50_000)).round(6)
for low, high in ((0.001, 1e6), (0.5, 200), (1e-300, 1e7), (3, 3.000001)):
    found.update(hw.Number(low, high, scale="log").encode(numbers).tobytes())
for column in (hw.Number(-1, 7), hw.Number(0, 1e6, decimals=3), hw.Integer(0, 10**6), hw.Number(0, 1, missing=True)):
    found.update(column.encode(numbers if column.kind == "number" else np.rint(numbers)).tobytes())
print(found.hexdigest())
"""


def test_a_value_lies_at_one_coordinate_on_every_processor() -> None:
    """Else a worker would count a record in another cell than the owner of the run: to the last digit."""
    optional = " ".join(np._core._multiarray_umath.__cpu_dispatch__)  # type: ignore[attr-defined]
    found = set()
    for features in ("", optional):
        environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": features}
        words = [sys.executable, "-W", "ignore", "-c", ENCODE]
        found.add(subprocess.run(words, env=environment, capture_output=True, check=True, text=True).stdout)
    assert len(found) == 1


def test_logarithms_are_right_to_the_last_digits() -> None:
    near = [1.0, np.nextafter(1.0, 2), 1 + 1e-9, np.sqrt(0.5), np.sqrt(2), np.nextafter(2.0, 1), 2.0, 1e308, 5e-324]
    numbers = np.array([*near, *np.exp(np.linspace(-700, 700, 5001))])
    assert _logarithms(numbers) == pytest.approx(np.log(numbers), rel=2e-15, abs=0)


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"low": 0, "high": 1, "scale": "log"}, "low must be above 0.*smallest value that matters"),
        ({"low": -1, "high": 1, "scale": "log"}, "low must be above 0"),
        ({"low": 1e-200, "high": 1e200, "scale": "log"}, "too far apart"),
        ({"low": 0, "high": 1, "scale": "square"}, "scale must be"),
        ({"low": 0, "high": 1, "step": 0}, "step must be a positive number"),
        ({"low": 0, "high": 1, "step": 2}, "larger than the way"),
        ({"low": 0, "high": 1, "step": 0.1, "decimals": 1}, "declare one of them"),
        ({"low": 0, "high": 1, "decimals": -1}, "decimals must be a whole number"),
        ({"low": 0.001, "high": 1, "decimals": 2}, r"more than 2 decimal\(s\)"),
        ({"low": 0, "high": 1e10, "decimals": 9}, "too many digits"),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(declared: dict[str, float], problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        hw.Number(**declared)  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", ["cascade", "paper", "marginals"])
def test_releases_have_as_few_digits_as_declared(mechanism: str, tmp_path: Path) -> None:
    """Of every mechanism, in memory and in a file of text."""
    schema = hw.Schema(price=hw.Number(0, 20, decimals=2), size=hw.Number(0.1, 1000, scale="log", decimals=1))
    rng = np.random.default_rng(1)
    synth = hw.Synthesizer(schema, epsilon=4.0, mechanism=mechanism, seed=2)
    synth.update({"price": rng.gamma(2, 2, 3000), "size": 10 ** rng.uniform(-1, 3, 3000)})
    table = synth.release().sample(500, kind="arrow")
    for name, digits in (("price", 2), ("size", 1)):
        values = table[name].to_pylist()
        assert all(value == round(value, digits) for value in values)
        assert len(set(values)) > 20


def test_frames_may_hold_counts_of_time() -> None:
    column = hw.Datetime("2024-01-01", "2024-12-31", "1s", format="epoch-ms", missing=True)
    times = [1710000000123, None, 1710000000999]
    expected = column.encode([1710000000123, None, 1710000000999]).tolist()
    assert column.encode(pa.chunked_array([times])).tolist() == expected
    assert column.encode(np.array([1710000000123.0, np.nan, 1710000000999.0])).tolist() == expected
    assert column.encode(["1710000000123", "", "1710000000999"]).tolist() == expected


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_a_release_is_read_back_however_the_data_were_written(tmp_path: Path, format_: str) -> None:
    """Releases are in ISO 8601 with decimal points, also where the schema says that the input is not."""
    schema = hw.Schema(
        day=hw.Datetime("2024-01-01", "2024-12-31", "1d", format="%d.%m.%Y"),
        pay=hw.Number(0, 9999, decimals=1, decimal=",", thousands="."),
        kind=hw.Category("a", "b", missing=True, null_values=["NA"]),
    )
    (tmp_path / "a.csv").write_text("day;pay;kind\n" + "31.01.2024;1.234,5;a\n01.02.2024;7;NA\n" * 50)
    config = RunConfig(schema, 1.0, mechanism="cascade", seed=1)
    with (
        Run.open(config, FolderSink(tmp_path / "out", format_), schedule=Schedule(records=100)) as run,
        open_source(tmp_path / "a.csv", schema, delimiter=";") as source,
    ):
        feed(run, source)
    (folder,) = folders(tmp_path / "out")
    assert len(hw.Release.load(folder)) == 100
    both = tables_of(tmp_path / "a.csv", folder, reading={"delimiter": ";"})
    assert len(both.real) == len(both.made) == 100


def test_values_that_a_step_changes_are_counted_and_named() -> None:
    """Half stars under a step of 1; not what is beyond the bounds, nor a float of 32 bits that means a multiple."""
    schema = hw.Schema(
        stars=hw.Number(0, 5, step=1),
        price=hw.Number(0, 1000, decimals=2),
        at=hw.Datetime("2024-01-01", "2024-12-31", "1h"),
        wide=hw.Number(1, 100, decimals=0, scale="log"),
    )
    table = {
        "stars": [2.5, 3, 9.5, 0.5] * 5,
        "price": np.array([0.1, 999.99, 123.45, 7.25] * 5, dtype=np.float32),
        "at": ["2024-05-05T13:00", "2024-05-05T13:30", "2024-05-05", "2023-05-05T13:30"] * 5,
        "wide": ["1.5", "2", "50", "100"] * 5,
    }
    tally = schema.encode_batch(table).tally
    assert tally.columns == {
        "stars": {"clipped": 5, "rounded": 10},
        "at": {"clipped": 5, "rounded": 5},
        "wide": {"rounded": 5},
    }
    assert "stars: 5 clipped (25%), 10 rounded (50%)" in list(tally.lines())
    assert any('"stars": 50% of its values are no multiples of the declared step' in line for line in tally.warnings())
