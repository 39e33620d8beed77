"""Releases with what they were measured from: made from it again, and used without Headwater."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import headwater as hw
from headwater.public import measurements
from headwater.public.cascade.tree import Tree
from headwater.public.files import FileRefusedError
from headwater.public.folder import prune, publish, read_card
from headwater.public.release import Release
from tests.release.test_answers import WIDE, people

pytestmark = pytest.mark.filterwarnings("ignore")


def release(mechanism: str, n: int = 3000, delta: float = 0.0, last: int | None = None) -> Release:
    synth = hw.Synthesizer(WIDE, epsilon=1.0, delta=delta, seed=1, mechanism=mechanism)
    synth.update(people(n, 1))
    return synth.release(last=last)


def plain(value: object) -> Any:  # noqa: ANN401 - of any field
    """What was measured as values that compare."""
    if isinstance(value, Tree):
        return value.key
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("mechanism", ["marginals", "cascade"])
@pytest.mark.parametrize(("delta", "last"), [(0.0, None), (1e-6, None), (0.0, 700)])
@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_a_folder_gives_back_all_that_was_measured_and_the_model(
    tmp_path: Path, mechanism: str, delta: float, last: int | None, format_: str
) -> None:
    made = release(mechanism, delta=delta, last=last)
    found = Release.load(publish(made, tmp_path, format=format_))
    assert plain(found.measured) == plain(made.measured)
    assert np.array_equal(found.points(), made.points())
    assert found.to_arrow().equals(made.to_arrow())
    assert len(found.sample(5000, kind="records")) == 5000
    assert str(found.share({"town": "a"})) == str(made.share({"town": "a"}))
    assert found.expected_error() == made.expected_error()


def test_counts_are_there_for_whoever_has_no_headwater(tmp_path: Path) -> None:
    made = release("marginals", 20_000)
    table = parquet.read_table(publish(made, tmp_path) / "measured.parquet").to_pylist()
    towns = [row for row in table if row["columns"] == ["town"] and row["present"] is None]
    assert {tuple(row["bins"][0]) for row in towns} == {("a", "b", "c", "d")}
    assert {row["law"] for row in table} <= {"integer Laplace", "joint Laplace"}
    weights = np.array([1 / row["variance"] for row in towns])
    counts = np.array([row["counts"] for row in towns], dtype=float)
    records = np.array([row["end"] - row["start"] for row in towns])
    pooled = (weights @ counts) / (weights @ records)
    assert pooled == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.02)
    ages = next(row for row in table if row["columns"] == ["age"])
    assert ages["bins"][0][0] == "0" and len(ages["bins"][0]) == len(ages["counts"])  # noqa: PT018


def test_counts_go_with_their_table(tmp_path: Path) -> None:
    synth = hw.Synthesizer(WIDE, epsilon=1.0, seed=1)
    places = []
    for seed in range(3):
        synth.update(people(400, seed))
        places.append(publish(synth.release(), tmp_path))
    prune(tmp_path, 1)
    assert [(place / "measured.parquet").exists() for place in places] == [False, False, True]
    with pytest.raises(FileRefusedError, match="is gone"):
        Release.load(places[0])


def test_counts_take_little_room(tmp_path: Path) -> None:
    assert (publish(release("marginals", 30_000), tmp_path) / "measured.parquet").stat().st_size < 400_000


def test_counts_that_were_altered_are_refused(tmp_path: Path) -> None:
    place = publish(release("marginals"), tmp_path)
    file = place / "measured.parquet"
    assert read_card(place)["measured"] == "measured.parquet"
    file.write_bytes(file.read_bytes()[:-20] + b"\0" * 20)
    with pytest.raises(FileRefusedError, match="checksum"):
        Release.load(place)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("end", 10**9),
        ("start", -5),
        ("scale", float("nan")),
        ("columns", ["wage"]),
        ("counts", [1]),
        ("codes", [[0, 500000]]),
        ("codes", [[3, 2]]),
        ("joint", -1),
    ],
)
def test_counts_that_nobody_can_have_measured_are_refused(name: str, value: Any) -> None:  # noqa: ANN401
    made = release("marginals")
    table = measurements.to_arrow(made)
    at = table.schema.get_field_index(name)
    changed = [value, *table.column(name).to_pylist()[1:]]
    table = table.set_column(at, name, pa.array(changed, table.schema.field(name).type))
    with pytest.raises(FileRefusedError):
        measurements.of_arrow(table, "measured.parquet", "marginals", WIDE)


def test_a_release_without_counts_is_read_as_before(tmp_path: Path) -> None:
    place = publish(release("marginals"), tmp_path)
    card = json.loads((place / "card.json").read_text())
    del card["measured"], card["measured_sha256"]
    (place / "card.json").write_text(json.dumps(card))
    (place / "measured.parquet").unlink()
    found = Release.load(place)
    assert len(found) == 3000
    assert found.share({"town": "a"}).how == "not known"
