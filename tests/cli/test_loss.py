"""Much that is lost on the way in is said loudly, with the column, the share and what to do; the exit code stays."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import headwater as hw
from headwater.cli.app import app
from headwater.cli.display import Display
from headwater.public.tally import Tally
from headwater.run import Published

SCHEMA = hw.Schema(
    x=hw.Number(0, 1), kind=hw.Category("a", "b", other="b"), n=hw.Integer(0, 9), gone=hw.Boolean(missing=True)
)
GOOD = {"x": "0.5", "kind": "a", "n": "3", "gone": "yes"}
WORSE = {
    "bad": ({"n": "secret"}, '60% of the rows are bad, most of them in column "n"', "correct the schema"),
    "clipped": ({"x": "7"}, 'column "x": 60% of its values lie beyond its bounds', "declare wider ones"),
    "unlisted": ({"kind": "secret"}, 'column "kind": 60% of its values are none of the listed', "list more of them"),
}


def lines(share: float, change: dict[str, str]) -> str:
    """A file of 200 records, of which some are changed."""
    rows = [(GOOD | change) if i % 100 < 100 * share else GOOD for i in range(200)]
    return "\n".join(["x,kind,n,gone", *(",".join(row.values()) for row in rows), ""])


def run(place: Path, text: str, *more: str) -> tuple[Result, Result]:
    """A run over a file, and what `info` says of its state afterwards."""
    SCHEMA.save(place / "s.toml")
    (place / "in.csv").write_text(text)
    command = ["run", place / "in.csv", "--schema", place / "s.toml", "--epsilon", 1, "--out", place / "out", *more]
    found = [CliRunner().invoke(app, list(map(str, words))) for words in (command, ["info", place / "out.state"])]
    assert [one.exit_code for one in found] == [0, 0], found[0].output
    return found[0], found[1]


@pytest.mark.parametrize("policy", ["null", "quarantine"])
@pytest.mark.parametrize("kind", WORSE)
def test_much_that_is_lost_is_told_at_the_end_and_by_info(tmp_path: Path, kind: str, policy: str) -> None:
    change, told, remedy = WORSE[kind]
    for result in run(tmp_path, lines(0.6, change), "--bad-rows", policy):
        assert f"WARNING: {told}" in result.stderr
        assert result.stderr.count("WARNING:") == 1
        assert remedy in result.stderr
        assert "needs a new run" in result.stderr
        assert "secret" not in result.stderr
        assert "for you only, and in no release" in result.stderr


@pytest.mark.parametrize("kind", WORSE)
def test_little_that_is_lost_is_counted_and_no_more(tmp_path: Path, kind: str) -> None:
    for result in run(tmp_path, lines(0.05, WORSE[kind][0]), "--bad-rows", "null"):
        assert "WARNING" not in result.output
        assert "10" in result.output


def test_a_column_in_which_nothing_is_found_is_told(tmp_path: Path) -> None:
    for result in run(tmp_path, lines(1.0, {"gone": ""})):
        assert 'WARNING: column "gone": 100% of its values are missing' in result.stderr


def test_shares_of_a_few_records_say_nothing() -> None:
    assert not list(Tally(9, bad=9).warnings())
    assert list(Tally(10, bad=9).warnings())


def test_zeros_on_a_logarithmic_scale_are_as_declared_and_no_loss(tmp_path: Path) -> None:
    column = hw.Schema(x=hw.Number(0.01, 100, scale="log"))
    assert not list(column.encode_batch({"x": [0.0] * 90 + [1.0] * 10}).tally.warnings())
    assert list(column.encode_batch({"x": [-1.0] * 90 + [1.0] * 10}).tally.warnings())


@pytest.mark.parametrize("endless", [True, False])
def test_a_run_without_end_is_told_at_its_first_release(endless: bool, capsys: pytest.CaptureFixture[str]) -> None:
    schema = hw.Schema(x=hw.Number(0, 1))
    release = hw.pmm({"x": [0.5] * 10}, schema, epsilon=1.0)
    display = Display(endless=endless)
    display._tally = Tally(100, bad=60)
    for t in (10, 20):
        display.show(Published(t, "here", "", release))
    said = capsys.readouterr().err
    assert said.count("WARNING: 60% of the rows are bad") == said.count("for you only") == int(endless)
