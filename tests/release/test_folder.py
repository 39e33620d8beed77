"""Release folders: whole or not there, never written twice, and readable by anyone."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.public import folder
from headwater.public.folder import folders, name_of, publish, read_card, sweep
from headwater.public.release import Release

SCHEMA = hw.Schema(x=hw.Number(0, 1), kind=hw.Category("a", "b"))


def release(n: int = 300, last: int | None = None, mechanism: str = "cascade") -> Release:
    synth = hw.Synthesizer(SCHEMA, epsilon=1.0, seed=1, mechanism=mechanism)
    rng = np.random.default_rng(0)
    synth.update({"x": rng.random(n), "kind": rng.choice(["a", "b"], n)})
    return synth.release(last=last)


def test_a_release_is_a_table_and_a_card_that_matches_it_for_anyone_to_read(tmp_path: Path) -> None:
    place = publish(release(), tmp_path / "out")
    assert sorted(path.name for path in place.iterdir()) == ["card.json", "data.parquet", "measured.parquet"]
    card = read_card(place)
    data = (place / "data.parquet").read_bytes()
    assert card["sha256"] == hashlib.sha256(data).hexdigest()
    assert pq.read_table(place / "data.parquet").num_rows == card["rows"] == card["t"] == 300
    assert hw.Schema.from_dict(card["schema"]) == SCHEMA
    assert 0 < card["expected_error"]["typical"] < card["expected_error"]["upper"]
    assert place.stat().st_mode & 0o777 == 0o755
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in place.iterdir())


def test_a_release_that_is_there_is_never_written_again(tmp_path: Path) -> None:
    place = publish(release(), tmp_path)
    (place / "card.json").write_text("somebody has signed this")
    assert publish(release(), tmp_path) == place
    assert (place / "card.json").read_text() == "somebody has signed this"


def test_a_window_has_a_name_of_its_own(tmp_path: Path) -> None:
    window, whole = release(last=50), release()
    assert name_of(window) != name_of(whole)
    publish(window, tmp_path)
    publish(whole, tmp_path)
    assert len(folders(tmp_path)) == 2


@pytest.mark.parametrize("step", ["write_table", "card_of", "sync"])
def test_a_failure_half_way_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folder, step, full)
        with pytest.raises(OSError, match="No space"):
            publish(release(), tmp_path)
    assert list(tmp_path.iterdir()) == []
    publish(release(), tmp_path)
    assert len(folders(tmp_path)) == 1


def test_what_a_killed_run_left_half_written_is_not_a_release_and_is_swept(tmp_path: Path) -> None:
    (tmp_path / ".release-abc").mkdir()
    (tmp_path / ".release-abc" / "data.parquet").write_bytes(b"half")
    (tmp_path / "release-notes.txt").write_text("not ours")
    assert folders(tmp_path) == []
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["release-notes.txt"]
    sweep(tmp_path / "not there")


@pytest.mark.parametrize(
    ("text", "say"),
    [
        ("{", "cannot be read"),
        ("[]", "not a card"),
        ('{"card": "one"}', "not a card"),
        ('{"card": 99}', "newer version"),
        ('{"card": 1}', "lacks"),
    ],
)
def test_cards_that_are_none_are_refused_by_name(tmp_path: Path, text: str, say: str) -> None:
    (tmp_path / "card.json").write_text(text)
    with pytest.raises(hw.FileRefusedError, match=say) as caught:
        read_card(tmp_path)
    assert "card.json" in str(caught.value)
    with pytest.raises(hw.FileRefusedError, match="no card"):
        read_card(tmp_path / "elsewhere")
