"""A release folder read back: rows, guarantee and card; and folders that hold less than the whole release."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

import headwater as hw
from headwater.public.folder import folders, has_table, prune, publish, read_card

SCHEMA = hw.Schema(
    x=hw.Number(-3, 7),
    n=hw.Integer(0, 100, missing=True),
    kind=hw.Category("a", "b, or not", ""),
    seen=hw.Datetime("2020-01-01", "2021-01-01"),
    at=hw.TimeOfDay(missing=True),
    good=hw.Boolean(),
)


def release(n: int = 500, last: int | None = None) -> hw.Release:
    rng = np.random.default_rng(0)
    synth = hw.Synthesizer(SCHEMA, epsilon=1.0, seed=1, mechanism="cascade")
    columns = {
        "x": rng.normal(size=n),
        "n": [None if i % 7 == 0 else i % 50 for i in range(n)],
        "kind": rng.choice(["a", "b, or not", ""], n),
        "seen": np.datetime64("2020-01-01") + rng.integers(0, 300, n).astype("timedelta64[D]"),
        "at": [None if i % 5 == 0 else f"{i % 24:02}:30" for i in range(n)],
        "good": rng.random(n) < 0.2,
    }
    synth.update(columns)
    return synth.release(last=last)


@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_a_folder_gives_back_the_table_that_was_published(tmp_path: Path, format_: str) -> None:
    made = release()
    found = hw.Release.load(publish(made, tmp_path, format=format_))
    assert found.sample().equals(made.to_arrow())
    assert found.to_pandas().equals(made.to_pandas())
    assert len(found) == 500
    assert (found.t, found.span, found.guarantee, found.schema, found.mechanism) == (
        (made.t, made.span, made.guarantee, made.schema, made.mechanism)
    )
    assert found.expected_error() == made.expected_error()
    assert found.card is not None
    assert found.card["rows"] == 500


def test_rows_of_a_folder_can_be_drawn_some_or_many_or_those_that_fulfil_conditions(tmp_path: Path) -> None:
    found = hw.Release.load(publish(release(), tmp_path))
    few = found.sample(40, kind="pandas")
    assert len(few) == len(few.drop_duplicates()) == 40
    assert len(found.sample(2000)) == 2000
    assert set(found.sample(30, where={"kind": "a"}, kind="columns")["kind"]) == {"a"}
    ranged = found.sample(30, where={"x": (0, 1)}, kind="columns")["x"]
    assert ((ranged >= 0) & (ranged <= 1)).all()
    found.save(tmp_path / "file")
    assert np.array_equal(hw.Release.load(tmp_path / "file").points(), found.points())


def test_a_table_that_is_not_the_one_on_the_card_is_refused(tmp_path: Path) -> None:
    place = publish(release(), tmp_path)
    (place / "data.parquet").write_bytes((place / "data.parquet").read_bytes() + b"x")
    with pytest.raises(hw.FileRefusedError, match="checksum"):
        hw.Release.load(place)


def test_a_limited_table_is_a_sample_and_the_card_says_so(tmp_path: Path) -> None:
    made = release()
    place = publish(made, tmp_path, rows=100)
    card = read_card(place)
    assert (card["rows"], card["sample_of"], card["t"]) == (100, 500, 500)
    assert "sample" in card["note"]
    assert hw.Release.load(place).sample(100).equals(made.sample(100, kind="arrow"))
    assert len(hw.Release.load(place)) == 500
    whole = read_card(publish(release(60), tmp_path, rows=100))
    assert (whole["rows"], whole["sample_of"]) == (60, None)


@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_a_release_that_is_there_is_known_again_under_another_limit(tmp_path: Path, format_: str) -> None:
    """A run that was killed after publishing may be continued with another --rows."""
    place = publish(release(), tmp_path, rows=100, format=format_)
    before = (place / "card.json").read_bytes()
    for rows in (None, 50, 100, 1000):
        assert publish(release(), tmp_path, rows=rows, format=format_) == place
    assert (place / "card.json").read_bytes() == before
    other = hw.Synthesizer(SCHEMA, epsilon=1.0, seed=2, mechanism="cascade")
    other.update(release().to_pandas())
    with pytest.raises(hw.FileRefusedError, match="other content"):
        publish(other.release(), tmp_path, format=format_)


def test_pruning_removes_old_tables_and_leaves_every_card(tmp_path: Path) -> None:
    for n in (100, 200, 300):
        publish(release(n), tmp_path, format="csv" if n == 100 else "parquet")
    publish(release(300, last=40), tmp_path)
    prune(tmp_path, 2)
    prune(tmp_path, 2)  # as after a kill
    assert [has_table(folder) for folder in folders(tmp_path)] == [False, False, True, True]
    assert [read_card(folder)["t"] for folder in folders(tmp_path)] == [100, 200, 300, 300]
    with pytest.raises(hw.FileRefusedError, match="only their cards stay"):
        hw.Release.load(folders(tmp_path)[0])
    publish(release(100), tmp_path, format="csv")  # it was published; it stays as it is
    assert not has_table(folders(tmp_path)[0])


MOMENTS = hw.Schema(
    day=hw.Datetime("1950-01-01", "2050-12-31", step="1d", missing=True, format="%d.%m.%Y"),
    week=hw.Datetime("2024-01-03", "2024-12-31", step="7d"),
    noon=hw.Datetime("2024-01-01T12:00", "2024-12-31", step="1d"),
    hour=hw.Datetime("2024-01-01", "2024-12-31", step="1h"),
    exact=hw.Datetime("2024-01-01", "2024-12-31", step="1ms"),
    finest=hw.Datetime("2024-01-01T00:00:00.0005", "2024-12-31", step="1s"),
    zoned=hw.Datetime("2024-01-01T00:00:00+01:00", "2024-12-31T00:00:00+01:00", step="1d"),
    minute=hw.TimeOfDay(step="1min", missing=True),
    tick=hw.TimeOfDay(step="10ms"),
)
SHAPES = {
    "day": r"(\d{4}-\d\d-\d\d)?",
    "week": r"2024-\d\d-\d\d",
    "noon": r"2024-\d\d-\d\d 12:00:00",
    "hour": r"2024-\d\d-\d\d \d\d:00:00",
    "exact": r"2024-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}",
    "finest": r"2024-\d\d-\d\d \d\d:\d\d:\d\d\.000500",
    "zoned": r"2024-\d\d-\d\d 00:00:00\+0100",
    "minute": r"(\d\d:\d\d:00)?",
    "tick": r"\d\d:\d\d:\d\d\.\d\d0",
}


def test_moments_in_csv_have_the_digits_of_their_steps_and_days_are_dates(tmp_path: Path) -> None:
    synth = hw.Synthesizer(MOMENTS, epsilon=1.0, seed=1)
    synth.update(MOMENTS.decode(np.random.default_rng(0).random((200, 9))))
    made = synth.release()
    place = publish(made, tmp_path, format="csv")
    with (place / "data.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for name, shape in SHAPES.items():
        assert all(re.fullmatch(shape, row[name]) for row in rows), name
    assert {"", *(row["day"] for row in rows)} > {""}
    assert hw.Release.load(place).to_arrow().equals(made.to_arrow())
    again = list(hw.read(place / "data.csv", MOMENTS.for_releases()))
    assert sum(batch.num_rows for batch in again) == 200
    made.to_csv(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (place / "data.csv").read_bytes()
