"""Runs whose unit is a person: with a cap of one they are those of records; caps survive everything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import headwater as hw
from headwater.public.folder import read_card
from headwater.public.laws import rho_for
from headwater.run import FolderSink, Run, RunConfig
from headwater.run.lock import StoreError
from headwater.run.restore import read_state
from headwater.secret import people as people_module
from headwater.secret.people import People
from headwater.service.settings import ServiceConfig
from tests.support.kept_runs import kill

JSON_LINES = {"Content-Type": "application/x-ndjson"}
TWO = hw.Schema(x=hw.Number(0, 1), y=hw.Number(0, 1))
WIDE = hw.Schema({f"c{i}": hw.Category(*"abc") for i in range(4)} | {"yes": hw.Boolean()})


def batch(schema: hw.Schema, size: int, people: int | None = None, seed: int = 0) -> dict[str, Any]:
    """Records of so many people; one record each unless given."""
    rng = np.random.default_rng([seed, size])
    found: dict[str, Any] = schema.decode(rng.random((size, schema.dimension)) ** 2, "columns")
    return found | {"who": np.arange(size) if people is None else rng.integers(0, people, size)}


def without(table: dict[str, Any]) -> dict[str, Any]:
    return {name: column for name, column in table.items() if name != "who"}


@pytest.mark.parametrize(("mechanism", "schema"), [("cascade", TWO), ("marginals", WIDE), ("paper", TWO)])
def test_a_cap_of_one_gives_what_records_give(mechanism: str, schema: hw.Schema) -> None:
    """Bit for bit, if nobody has two records."""
    one = hw.Synthesizer(schema, epsilon=2.0, mechanism=mechanism, person=hw.Person("who", records=1), seed=4)
    other = hw.Synthesizer(schema, epsilon=2.0, mechanism=mechanism, seed=4)
    one.update(batch(schema, 3000))
    other.update(without(batch(schema, 3000)))
    assert np.array_equal(one.release().points(), other.release().points())
    assert one.capped == 0
    assert one.guarantee.unit == "person"


@pytest.mark.parametrize("mechanism", ["cascade", "marginals", "paper"])
def test_a_cap_of_k_gives_what_epsilon_over_k_gives(mechanism: str) -> None:
    """With the records beyond the cap as null records, decided by a dictionary."""
    table = batch(WIDE, 2500, people=300)
    seen: dict[int, int] = {}
    beyond = []
    for who in table["who"].tolist():
        seen[who] = seen.get(who, 0) + 1
        beyond.append(seen[who] > 4)
    synth = hw.Synthesizer(WIDE, epsilon=8.0, mechanism=mechanism, person=hw.Person("who", records=4), seed=1)
    synth.update(table)
    literal = hw.Synthesizer(WIDE, epsilon=2.0, mechanism=mechanism, seed=1)
    found = literal.encode(without(table))
    found.rows[beyond] = np.iinfo(found.rows.dtype).max
    literal.take(found)
    assert synth.capped == sum(beyond) > 500
    assert np.array_equal(synth.release().points(), literal.release().points())
    assert literal.ledger() == synth.ledger()
    assert 4 * synth.ledger().total <= 8


def test_counts_from_elsewhere_and_rows_without_people_are_refused() -> None:
    synth = hw.Synthesizer(TWO, epsilon=1.0, person=hw.Person("who", records=2), seed=1)
    plain = hw.Synthesizer(TWO, epsilon=1.0, seed=1)
    for numbers in (None, 0):
        with pytest.raises(ValueError, match="person"):
            synth.take(plain.encode(without(batch(TWO, 5)), numbers))
    with pytest.raises(ValueError, match="counted records have no owners"):
        synth.encode(batch(TWO, 5), 0)


@pytest.mark.parametrize("per", [None, 700])
def test_caps_survive_kills_and_snapshots(tmp_path: Path, per: int | None) -> None:
    """Killed after every batch, with snapshots in between: the run is that of a process that lived."""
    config = RunConfig(TWO, 3.0, seed=2, person=hw.Person("who", records=3, per=per))
    with Run.open(config, FolderSink(tmp_path / "calm")) as calm:
        for number in range(12):
            calm.take(batch(TWO, 150, people=40, seed=number))
        wanted, capped = calm.release().points(), calm.tally.capped
    assert capped > 100
    for number in range(12):
        run = Run.open(config, FolderSink(tmp_path / "out"), state=tmp_path / "run.state")
        run.take(batch(TWO, 150, people=40, seed=number))
        run.close() if number % 3 == 2 else kill(run)
    _, looked = read_state(tmp_path / "run.state")
    with Run.open(config, FolderSink(tmp_path / "out"), state=tmp_path / "run.state") as run:
        assert np.array_equal(run.release().points(), wanted)
        assert run.tally.capped == capped == looked.capped
        published = run.publish()
        assert published is not None
        card = read_card(published.place)
    assert card["guarantee"] == str(run.synth.guarantee)
    assert card["records_per_person"] == 3
    assert "capped" not in str(card)
    assert hw.Release.load(published.place).guarantee == run.synth.guarantee


def test_a_failed_commit_leaves_the_caps(tmp_path: Path) -> None:
    """A full disk: the batch is neither kept nor counted, and can be sent again."""
    config = RunConfig(TWO, 3.0, seed=2, person=hw.Person("who", records=1))
    with Run.open(config, FolderSink(tmp_path / "out"), state=tmp_path / "run.state") as run:
        full = StoreError(tmp_path, "the disk is full", "make room")
        with patch.object(type(run._state), "append", side_effect=full), pytest.raises(StoreError):
            run.take(batch(TWO, 50))
        run.take(batch(TWO, 50))
        assert run.tally.capped == 0
        run.take(batch(TWO, 50))
        assert run.tally.capped == 50


THREE = hw.Person("who", records=3)


@pytest.mark.parametrize(
    ("begun", "other", "said"),
    [
        (THREE, None, r'\(--person "who"\).*at most 3 records count'),
        (THREE, hw.Person("who", records=4), r"\(records = 3\).*at most 3 records count"),
        (THREE, hw.Person("who", records=3, per=10), r"\(per = None\).*at most 3 records count"),
        (None, THREE, r"\(none: leave out --person\).*for one record"),
    ],
)
def test_a_cap_never_changes(tmp_path: Path, begun: hw.Person | None, other: hw.Person | None, said: str) -> None:
    table = batch(TWO, 50)
    with Run.open(RunConfig(TWO, 3.0, person=begun), FolderSink(tmp_path / "out"), state=tmp_path / "run.state") as run:
        run.take(table if begun else without(table))
    with pytest.raises(StoreError, match=f"another person {said}"):
        Run.open(RunConfig(TWO, 3.0, person=other), FolderSink(tmp_path / "out"), state=tmp_path / "run.state")


@contextmanager
def clock() -> Iterator[Callable[[float], None]]:
    """A clock that is set by hand."""
    now = [1e9]

    def stamped(self: People, rows: Any, width: int, clock: object = None) -> Any:  # noqa: ANN401
        return real(self, rows, width, lambda: now[0])

    real = people_module.People.stamped
    with patch.object(People, "stamped", stamped):
        yield lambda seconds: now.__setitem__(0, now[0] + seconds)


def test_periods_by_the_clock_are_kept_with_the_records(tmp_path: Path) -> None:
    """A journal that is counted on another day gives the caps of the day on which its records came."""
    config = RunConfig(TWO, 3.0, seed=1, person=hw.Person("who", records=2, per="1d"))
    table = batch(TWO, 40, people=1)
    with clock() as later:
        run = Run.open(config, FolderSink(tmp_path / "out"), state=tmp_path / "run.state")
        run.take(table)
        later(86400)
        run.take(table)
        run.take(table)
        kill(run)
        later(10 * 86400)
        with Run.open(config, FolderSink(tmp_path / "out"), state=tmp_path / "run.state") as run:
            assert run.tally.capped == 120 - 2 * 2
            run.take(table)
            assert run.tally.capped == 160 - 3 * 2
        assert "any one period of 1d" in str(run.synth.guarantee)


def test_a_service_takes_people(opened: Any) -> None:  # noqa: ANN401
    """All posts, small and large, and one that is sent twice; the share of capped records is for admins only."""
    client = opened(person=hw.Person("who", records=2))
    lines = [f'{{"x": 0.5, "kind": "a", "who": {i % 5}}}' for i in range(40)]
    for replayed in (None, "true"):  # a retry counts once, also in the caps
        answer = client.post(
            "/runs/trips/records", content="\n".join(lines), headers=JSON_LINES | {"Idempotency-Key": "one"}
        )
        assert (answer.status_code < 300, answer.headers.get("Idempotency-Replayed")) == (True, replayed)
    text = "x,who,kind\n" + "0.5,7,a\n" * 200
    assert client.post("/runs/trips/records", content=text, headers={"Content-Type": "text/csv"}).status_code < 300
    refused = client.post("/runs/trips/records", content='{"x": 0.5, "kind": "a"}', headers=JSON_LINES)
    assert refused.status_code == 422
    assert "who" in refused.text
    facts = client.get("/runs/trips", headers={"Accept": "application/json"}).json()
    assert facts["guarantee"].startswith("ε = 1 for one person, of whom at most 2 records count (replace all records")
    assert "who" not in facts["schema"]["columns"]
    assert "capped" not in str(facts)
    deadline = time.monotonic() + 20
    while client.get("/runs/trips/status").json()["tally"].get("capped") != 30 + 198:
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


def test_a_service_file_declares_people(tmp_path: Path) -> None:
    TWO.save(tmp_path / "s.toml")
    text = '[runs.a]\nschema = "s.toml"\nepsilon = 1.0\nperson = { column = "who", records = 5, per = "1d" }\n'
    (tmp_path / "service.toml").write_text(text)
    assert ServiceConfig.load(tmp_path / "service.toml").runs["a"].person == hw.Person("who", records=5, per="1d")
    (tmp_path / "service.toml").write_text(text.replace("records = 5", "record = 5"))
    with pytest.raises(ValueError, match=r"runs\.a\.person\.record is not a setting"):
        ServiceConfig.load(tmp_path / "service.toml")


def test_a_cap_for_buckets_is_refused_where_it_buys_nothing() -> None:
    with pytest.raises(ValueError, match="delta"):
        hw.Synthesizer(WIDE, epsilon=1.0, person=hw.Person("who", records=4, per_bucket=2))


def test_the_plan_says_what_a_cap_costs() -> None:
    """And noise has that scale: as many times that of one record."""
    one = hw.Synthesizer(TWO, epsilon=1.0).ledger()[0].scale
    for records in (2, 20):
        synth = hw.Synthesizer(TWO, epsilon=1.0, person=hw.Person("who", records=records))
        assert f"ε = 1 for {records} records of one person" in str(synth.plan())
        assert f"noise has {records} times the scale that one record needs" in str(synth.plan())
        assert synth.ledger()[0].scale == pytest.approx(records * one)
    person = hw.Person("who", records=100, per_bucket=4)
    with_delta = hw.Synthesizer(TWO, epsilon=1.0, delta=1e-9, person=person)
    assert "ε = 1, δ = 1e-09 for 100 records" in str(with_delta.plan())
    assert "noise has 20 times the scale" in str(with_delta.plan())
    assert with_delta.ledger()[0].scale == pytest.approx(20 / (float(rho_for(1.0, 1e-9)) ** 0.5), rel=1e-3)
