"""What is promised is said in the same words wherever it is said: unit, ε, δ and cap."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import headwater as hw
from headwater.cli.app import app
from headwater.public.budget import Guarantee
from headwater.public.folder import publish
from headwater.report import write_report
from headwater.run import FolderSink, Run, RunConfig
from headwater.service import live as pages

SCHEMA = hw.Schema(x=hw.Number(0, 1), y=hw.Number(0, 1))
CASES: dict[str, dict[str, Any]] = {
    "ε = 2 for one record": {},
    "ε = 2, δ = 1e-09 for one record": {"delta": 1e-9},
    "ε = 2 for one person, of whom at most 3 records count": {"person": hw.Person("who", records=3)},
    "ε = 2 for one person, of whom at most 1 record counts": {"person": hw.Person("who", records=1)},
    "ε = 2, δ = 1e-09 for one person in any one period of 50 arrivals, of whom at most 3 records count": {
        "delta": 1e-9,
        "person": hw.Person("who", records=3, per=50, per_bucket=2),
    },
}


@pytest.mark.parametrize("words", CASES)
def test_everything_says_the_same(words: str, tmp_path: Path) -> None:
    """Card, report, live page, list of runs, release, saved release, terminal and status."""
    config = RunConfig(SCHEMA, 2.0, **CASES[words])
    table: dict[str, Any] = {"x": [0.5] * 200, "y": [0.25] * 200}
    with Run.open(config, FolderSink(tmp_path / "out"), state=tmp_path / "run.state") as run:
        run.take(table if config.person is None else table | {"who": list(range(200))})
        published = run.publish()
        assert published is not None
        guarantee, release = run.synth.guarantee, run.release()
    assert guarantee.promise == words
    card = json.loads((Path(published.place) / "card.json").read_text())
    assert card["guarantee"] == str(guarantee)
    assert str(guarantee).startswith(f"{words} (replace ")
    assert Guarantee.from_dict(card) == Guarantee.as_stated(card) == guarantee
    assert f"({words}, cascade" in str(release)

    write_report(tmp_path / "out", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    found = re.search(r'"promise": ?"([^"]*)"', text)
    assert found is not None
    assert json.loads(f'"{found[1]}"') == words

    facts = {"name": "a", "t": 200, "releases": 1, "mechanism": "cascade", **guarantee.to_dict()}
    for page in (pages.page_of(facts), pages.home([facts])):
        assert words in page.decode()
    shown = re.sub("<sup>(.*?)</sup>", r"^\1", pages.page_of(facts).decode())
    assert guarantee.meaning in shown
    assert guarantee.limits in shown

    for path in ("out", "run.state"):
        said = CliRunner().invoke(app, ["info", str(tmp_path / path)], env={"COLUMNS": "400"})
        assert words in " ".join(said.output.split()), said.output


def test_pages_say_what_holds_for_whom() -> None:
    record = Guarantee(1.0)
    person = Guarantee(1.0, 0.0, "person", "replace all records of one person", 5)
    period = Guarantee(1.0, 0.0, "person in any one period of 1d", "replace all records of one person in one period", 5)
    assert "any one record" in record.meaning
    assert "k·ε" in record.limits
    assert "all records of any one person are replaced" in person.meaning
    assert "k·ε" not in person.limits
    assert "any one person in one period of 1d" in period.meaning
    assert "n periods it is n·ε" in period.limits
    assert "δ = 1e-09" in Guarantee(1.0, 1e-9).meaning


@pytest.mark.parametrize(
    "wrong",
    [{"unit": "household"}, {"unit": "person", "neighbours": "anything"}, {"neighbours": "replace half a record"},
     {"unit": "person", "neighbours": "replace all records of one person", "records_per_person": 0}],
)  # fmt: skip
def test_a_saved_release_that_promises_something_else_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no guarantee"):
        Guarantee.from_dict({**Guarantee(1.0).to_dict(), **wrong})


def test_cards_and_pages_say_whose_record_an_unreadable_line_is(tmp_path: Path) -> None:
    """Only where records belong to people: the name of a sender may be lost with another field of its line."""
    schema = hw.Schema(x=hw.Number(0, 1))
    for person in (None, hw.Person("who", records=2)):
        synth = hw.Synthesizer(schema, epsilon=1.0, person=person, seed=1)
        synth.update([{"x": 0.5} | ({"who": "a"} if person else {})] * 20)
        release = synth.release()
        publish(release, tmp_path / str(person is None))
        (card,) = tmp_path.glob(f"{person is None}/*/card.json")
        for said in (release.guarantee.meaning, card.read_text(encoding="utf-8")):
            assert ("belongs to nobody and uses up no cap" in said) == (person is not None)
