"""What is kept with records for their sources, and releases that are shown without a sink."""

import threading
from pathlib import Path

import numpy as np
import pytest
from headwater.run.store import Store, receipt

from headwater import Number, Schema
from headwater.public import protocol as registry
from headwater.run import FolderSink, Run, RunConfig, Schedule
from headwater.run.lock import StateDamagedError

CONFIG = RunConfig(Schema(x=Number(0, 1)), 1.0)


def open_run(folder: Path) -> Run:
    return Run.open(CONFIG, FolderSink(folder / "out"), state=folder / "s", schedule=Schedule(records=100))


def take(run: Run, count: int, receipts: bytes) -> None:
    run.take_rows(run.synth.encode({"x": np.linspace(0, 1, count)}), receipts=receipts)
    run.publish_if_due()


def test_receipts_are_kept_with_their_records_and_outlive_snapshots(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        take(run, 3, b"one")
        take(run, 2, b"")
        take(run, 2, b"two")
        assert b"".join(run.receipts()) == b"onetwo"
    with open_run(tmp_path) as run:  # closing has left a snapshot in place of the journal
        assert run.t == 7
        take(run, 1, b"three")
        assert b"".join(run.receipts()) == b"onetwothree"


def test_a_batch_that_is_not_kept_leaves_no_receipt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_run(tmp_path) as run:
        take(run, 3, b"one")

        def fail(*_: object) -> None:
            raise RuntimeError("before the commit")

        with monkeypatch.context() as patch:
            patch.setattr(Store, "set_meta", fail)
            with pytest.raises(RuntimeError):
                take(run, 3, b"two")
        assert b"".join(run.receipts()) == b"one"
        assert run.t == 3


def test_the_oldest_receipts_are_forgotten_and_the_last_ones_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipt, "KEPT_BYTES", 100)
    for number in range(10):
        with open_run(tmp_path) as run:
            take(run, 1, bytes([number]) * 40)
    with open_run(tmp_path) as run:
        found = b"".join(run.receipts())
    assert 100 <= len(found) < 400
    assert found == b"".join(bytes([number]) * 40 for number in range(10))[-len(found) :]


def test_receipts_that_were_altered_are_damage(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        take(run, 1, b"one")
    with Store.open(tmp_path / "s") as kept:
        kept.connection.execute("UPDATE receipt SET data = ?", (b"two",))
    with open_run(tmp_path) as run, pytest.raises(StateDamagedError):
        run.receipts()


def test_a_release_without_a_sink_is_noted_before_it_is_returned(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        take(run, 50, b"")
        assert run.store is not None
        assert run.store.noted("measured_by") is None
        release = run.release(last=20)
        assert run.store.noted("measured_by") is not None
        assert run.store.noted("sinks") in (None, [])
        assert release.t == 50


def test_a_release_is_made_while_records_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fitting a release does not hold up writers: a batch of another thread is taken while one is being made."""
    with open_run(tmp_path) as run:
        take(run, 50, b"")
        model = registry.model

        def slow(mechanism: str) -> object:
            other = threading.Thread(target=take, args=(run, 5, b""))
            other.start()
            other.join(20)
            assert not other.is_alive()
            return model(mechanism)

        monkeypatch.setattr(registry, "model", slow)
        assert run.release().t == 50
        assert run.t == 55
