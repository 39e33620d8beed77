"""`headwater ask`: every kind of question, every format, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import headwater as hw
from headwater.cli.app import app
from headwater.public.folder import publish
from tests.release.test_answers import WIDE, people

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    synth = hw.Synthesizer(WIDE, epsilon=1.0, seed=1)
    synth.update(people(4000, 1))
    return publish(synth.release(), tmp_path_factory.mktemp("out"))


def ask(place: Path, *words: str) -> Any:  # noqa: ANN401 - a result of typer
    return CliRunner().invoke(app, ["ask", str(place), *words], env={"COLUMNS": "200"})


@pytest.mark.parametrize(
    ("words", "method", "args", "more"),
    [
        ((), "count", (), {}),
        (("--where", "town=a", "--where", "age=20..40"), "count", ({"town": "a", "age": (20, 40)},), {}),
        (("--where", "work="), "count", ({"work": None},), {}),
        (("--share", "--where", "town=a,b"), "share", ({"town": ["a", "b"]},), {}),
        (("--share", "--where", "town=a", "--of", "age=..30"), "share", ({"town": "a"},), {"of": {"age": (None, 30)}}),
        (("--mean", "pay", "--level", "0.5"), "mean", ("pay",), {"level": 0.5}),
        (("--quantile", "age", "--p", "0.9"), "quantile", ("age", 0.9), {}),
        (("--correlation", "age,pay"), "correlation", ("age", "pay"), {}),
    ],
)  # fmt: skip
def test_every_question_is_that_of_the_release(
    place: Path, words: tuple[str, ...], method: str, args: tuple[Any, ...], more: dict[str, Any]
) -> None:
    expected = getattr(hw.Release.load(place), method)(*args, **more)
    found = ask(place, *words, "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.output) == {
        "answer": expected,
        "low": expected.low,
        "high": expected.high,
        "how": expected.how,
    }
    assert ask(place.parent, *words).output == f"{expected}  [{expected.how}]\n", "the last of the folder"


def test_answers_by_group_are_a_table(place: Path) -> None:
    expected = hw.Release.load(place).mean("pay", by="town")
    text = ask(place, "--mean", "pay", "--by", "town", "--json").output
    rows = json.loads(text)
    assert [(row["town"], float(row["answer"])) for row in rows] == [(town, float(a)) for town, a in expected]
    assert ask(place, "--mean", "pay", "--by", "town").output.splitlines() == str(expected).splitlines()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--where", "wage=3"), "a condition is COLUMN=VALUE"),
        (("--mean", "pay", "--share"), "one question at a time"),
        (("--mean", "wage"), "no column"),
        (("--mean", "town"), "error: the column 'town' holds no numbers"),
        (("--of", "town=a"), "goes with --share"),
        (("--level", "90"), "between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused(place: Path, words: tuple[str, ...], message: str) -> None:
    found = ask(place, *words)
    assert found.exit_code != 0
    assert message in " ".join(found.output.split())


def test_answers_are_a_table_for_programs_too(place: Path) -> None:
    head, *rows = ask(place, "--mean", "pay", "--by", "town", "--csv").output.splitlines()
    assert head.split(",")[0] == "town"
    assert [len(row.split(",")) for row in rows] == [len(head.split(","))] * len(rows)
    assert rows
