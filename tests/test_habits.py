"""What a new user types first: files, chunks and generators for `update`, words of other libraries, odd budgets."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import headwater as hw
from tests.support.runs import same

SCHEMA = hw.Schema(x=hw.Number(0, 1), n=hw.Integer(0, 9))
TABLE = pd.DataFrame({"x": np.random.default_rng(0).random(300).round(6), "n": np.arange(300) % 10})


def start(schema: hw.Schema = SCHEMA) -> hw.Synthesizer:
    return hw.Synthesizer(schema, epsilon=1.0, seed=1)


def as_path(folder: Path) -> Any:  # noqa: ANN401 - whatever `update` takes
    TABLE.to_csv(folder / "in.csv", index=False)
    return folder / "in.csv"


def as_chunks(folder: Path) -> Any:  # noqa: ANN401
    return pd.read_csv(io.StringIO(TABLE.to_csv(index=False)), chunksize=70)


def as_batches(folder: Path) -> Any:  # noqa: ANN401
    table = pa.Table.from_pandas(TABLE)
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=70))


def as_records(folder: Path) -> Iterator[dict[str, Any]]:
    return (record for record in TABLE.to_dict("records"))


@pytest.mark.parametrize("make", [as_path, as_chunks, as_batches, as_records])
def test_update_takes_files_chunks_and_generators_and_counts_what_the_whole_table_counts(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    whole, parts = start(), start()
    whole.update(TABLE)
    parts.update(make(tmp_path))
    assert same(parts.release(), whole.release())
    assert parts.t == 300


def test_batches_before_a_wrong_one_are_counted_and_the_error_says_so(tmp_path: Path) -> None:
    synth, bad = start(), TABLE.assign(x=TABLE["x"].where(TABLE.index != 40, 2.0).astype(object))
    bad.loc[41, "x"] = "secret"
    with pytest.raises(hw.TableError) as caught:
        synth.update(table for table in (TABLE, bad, TABLE))
    assert synth.t == 300
    assert "300 records before" in caught.value.__notes__[0]
    (tmp_path / "in.csv").write_text("x,n\n0.5,1\n0.5,one\n")
    with pytest.raises(hw.TableError, match=r"in\.csv.*line 3"):
        synth.update(str(tmp_path / "in.csv"))
    assert synth.t == 300


def test_an_open_file_is_not_taken_for_paths(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("x,n\n0.5,1\n")
    with (tmp_path / "in.csv").open() as file, pytest.raises(hw.TableError, match="of type str"):
        start().update(file)


def test_a_schema_of_a_table_is_refused_with_what_to_write() -> None:
    with pytest.raises(hw.SchemaError, match=r"not taken from a DataFrame.*headwater.draft.*headwater schema FILE"):
        hw.Schema(TABLE)


@pytest.mark.parametrize(
    "given",
    [
        ("b", "a"),
        pd.Series(["b", "a"], index=[7, 3]),
        pl.Series(["b", "a"]),
        pa.array(["b", "a"]),
        np.array(["b", "a"]),
        {"b": 1, "a": 2}.keys(),
        pd.Categorical(["b", "a"]),
    ],
    ids=lambda given: type(given).__name__,
)
def test_the_values_of_a_category_may_come_in_anything_that_has_an_order(given: Any) -> None:  # noqa: ANN401
    assert hw.Category(given) == hw.Category("b", "a")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"b", "a"}, ["a set has no order", "sorted(values)"]),
        (frozenset("ba"), ["a set has no order", "sorted(values)"]),
        (pd.Series(["b", None]), ["missing value", "missing = true"]),
        (pd.Series(["b", "b"]), ["listed twice"]),
        (pd.DataFrame({"b": [1]}), ["must be texts"]),
        ({"b": "long name"}, ["must be texts"]),
    ],
    ids=lambda given: type(given).__name__,
)
def test_values_of_a_category_without_an_order_are_refused_with_what_to_write(given: Any, words: list[str]) -> None:  # noqa: ANN401
    with pytest.raises(hw.SchemaError) as caught:
        hw.Category(given)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(("epsilon", "says"), [(20.0, "promises little"), (0.001, "1,000 records")])
def test_a_budget_that_is_odd_is_warned_of_once_and_kept(tmp_path: Path, epsilon: float, says: str) -> None:
    with pytest.warns(hw.EpsilonWarning, match=says) as caught:
        synth = hw.Synthesizer(SCHEMA, epsilon=epsilon)
    assert caught[0].filename == __file__
    with pytest.warns(hw.EpsilonWarning, match=says):
        hw.pmm(TABLE, SCHEMA, epsilon=epsilon)
    synth.save(tmp_path / "state")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hw.Synthesizer.load(tmp_path / "state").epsilon == epsilon
        for usual in (0.01, 1.0, 10.0):
            hw.Synthesizer(SCHEMA, epsilon=usual)
