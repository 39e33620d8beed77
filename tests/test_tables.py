"""Tables from end to end: every mechanism, every kind of column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.public.cascade.tree import possible
from headwater.public.partition import Axis, Partition
from headwater.secret.cascade import CascadeMechanism
from headwater.secret.noise import Noise
from tests.support.runs import cube, feed

SCHEMA = hw.Schema(
    amount=hw.Number(0, 100),
    visits=hw.Integer(0, 9, missing=True),
    kind=hw.Category("a", "b", "c", missing=True),
    member=hw.Boolean(),
    day=hw.Datetime("2024-01-01", "2024-03-01", step="1d"),
    hour=hw.TimeOfDay(step="1h"),
)


def frame(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    visits = pd.array(rng.integers(0, 10, rows), dtype="Int64")
    visits[rng.random(rows) < 0.2] = pd.NA
    return pd.DataFrame(
        {
            "amount": rng.gamma(2, 10, rows),
            "visits": visits,
            "kind": rng.choice(np.array(["a", "b", None], dtype=object), rows),
            "member": rng.random(rows) < 0.7,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 30, rows), unit="D"),
            "hour": [pd.Timestamp(0).replace(hour=int(h)).time() for h in rng.binomial(23, 0.4, rows)],
        }
    )


@pytest.mark.parametrize("mechanism", ["cascade", "paper"])
def test_a_frame_comes_back_as_the_kind_it_was_with_its_columns_and_types(mechanism: str) -> None:
    synth = hw.Synthesizer(SCHEMA, epsilon=2.0, mechanism=mechanism, seed=1)
    synth.update(frame(3000))
    found = synth.release().sample()
    assert isinstance(found, pd.DataFrame)
    assert list(found.columns) == list(SCHEMA.columns)
    assert len(found) == 3000
    SCHEMA.encode(found)  # in the schema, or an error
    assert found["amount"].between(0, 100).all()
    assert set(found["kind"].dropna()) <= {"a", "b", "c"}
    assert found["day"].between("2024-01-01", "2024-03-01").all()
    assert (found["day"] == found["day"].dt.normalize()).all()


axis = st.builds(Axis, values=st.none() | st.integers(1, 12), missing=st.booleans(), weight=st.sampled_from([1.0, 2.0]))


def points_of(partition: Partition, rows: int, rng: np.random.Generator) -> np.ndarray:
    columns = []
    for a in partition.axes:
        values = rng.random(rows) ** 3 if a.values is None else (a.values * rng.random(rows) ** 2).astype(np.int64)
        columns.append(a.place(values, rng.random(rows) < 0.3 if a.missing else None))
    return np.stack(columns, axis=1)


@given(st.lists(axis, min_size=1, max_size=4), st.integers(0, 2**32), st.sampled_from([0.3, 2.0, 30.0]))
@settings(max_examples=40)
def test_neighbouring_streams_move_two_leaf_counts_by_one_and_never_an_impossible_one(
    axes: list[Axis], seed: int, epsilon: float
) -> None:
    """The same trees and the same noise: one record replaced moves at most two counts of a summary, by one each."""
    partition, rng = Partition(axes), np.random.default_rng(seed)
    x = points_of(partition, 700, rng)
    y = x.copy()
    place = int(rng.integers(0, len(x)))
    y[place] = points_of(partition, 1, rng)[0]
    mechanisms = [feed(CascadeMechanism(cube(partition), epsilon, Noise(seed=3)), stream) for stream in (x, y)]
    for one, other in zip(mechanisms[0].history.slow, mechanisms[1].history.slow, strict=True):
        for a, b in zip(one.parts, other.parts, strict=True):
            if [s.tobytes() for s in a.tree.splits] != [s.tobytes() for s in b.tree.splits]:
                return  # from here on the published numbers differ, and so may what is measured
            moved = a.counts - b.counts
            assert np.abs(moved).sum() <= (2 if one.start <= place < one.end else 0)
            assert (a.counts[~possible(a.tree, partition)] == 0).all()


@pytest.mark.parametrize("mechanism", ["cascade", "paper"])
@given(data=st.data())
@settings(max_examples=25)
def test_no_release_ever_holds_a_value_that_is_impossible(mechanism: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    missing = data.draw(st.booleans())
    schema = hw.Schema({f"c{i}": hw.Integer(0, k - 1, missing=missing) for i, k in enumerate(values)})
    synth = hw.Synthesizer(schema, epsilon=data.draw(st.sampled_from([0.05, 1.0, 50.0])), mechanism=mechanism, seed=2)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    for size in data.draw(st.lists(st.integers(0, 300), min_size=1, max_size=4)):
        synth.update({f"c{i}": rng.integers(0, k, size) for i, k in enumerate(values)})
        points = synth.release().points()
        assert len(points) == synth.t
        partition = schema.partition
        assert partition.possible(partition.cells(points, partition.deepest), partition.deepest).all()
        schema.encode(synth.release().sample(kind="records"))


def test_a_saved_run_on_a_table_goes_on_with_the_same_noise_and_kind(tmp_path: Path) -> None:
    whole, broken = (hw.Synthesizer(SCHEMA, epsilon=1.0, seed=9) for _ in range(2))
    for part in (frame(700, 1), frame(900, 2)):
        whole.update(part)
        broken.update(part)
        broken.save(tmp_path / "state")
        broken = hw.Synthesizer.load(tmp_path / "state")
        broken = hw.Synthesizer.from_bytes(broken.to_bytes())
    assert broken.schema == SCHEMA
    pd.testing.assert_frame_equal(whole.release().sample(), broken.release().sample())
    whole.release().save(tmp_path / "release")
    pd.testing.assert_frame_equal(hw.Release.load(tmp_path / "release").sample(), whole.release().sample())


@pytest.mark.parametrize("mechanism", ["cascade", "paper"])
def test_a_refused_batch_leaves_everything_as_it_was(mechanism: str) -> None:
    synth = hw.Synthesizer(SCHEMA, epsilon=1.0, mechanism=mechanism, seed=9)
    synth.update(frame(300))
    before = synth.to_bytes()
    bad = frame(50, 3)
    bad.loc[17, "kind"] = "unheard of"
    with pytest.raises(hw.TableError) as caught:
        synth.update(bad)
    assert (caught.value.row, caught.value.column) == (17, "kind")
    assert "unheard" not in str(caught.value)
    assert synth.to_bytes() == before


def test_a_schema_of_one_value_has_one_possible_table() -> None:
    synth = hw.Synthesizer(hw.Schema(only=hw.Category("this")), epsilon=1.0)
    synth.update({"only": ["this"] * 100})
    assert set(synth.release().sample()["only"]) == {"this"}


def test_pieces_of_a_release_are_its_table() -> None:
    synth = hw.Synthesizer(SCHEMA, epsilon=1.0, seed=9)
    synth.update(frame(1000))
    release = synth.release()
    pieces = list(release.tables(rows=300))
    assert [len(piece) for piece in pieces] == [300, 300, 300, 100]
    pd.testing.assert_frame_equal(pd.concat(pieces, ignore_index=True), release.sample())
