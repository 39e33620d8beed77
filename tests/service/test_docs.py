"""The curl lines of the page about the service work as they are written."""

import inspect
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from headwater.cli.run import command as run_command
from headwater.service import ServiceConfig
from tests.service.conftest import SCHEMA
from tests.service.test_process import Process

PAGE = (Path(__file__).parents[2] / "docs/service.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_every_curl_line_works(tmp_path: Path) -> None:
    service = Process(tmp_path)
    try:
        (tmp_path / "trips.csv").write_text("x,kind\n" + "".join(f"{i / 3000},{'ab'[i % 2]}\n" for i in range(2500)))
        blocks = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)).replace("\\\n", " ")
        lines = [line for line in blocks.splitlines() if line.startswith("curl")]
        assert len(lines) >= 8
        for line in lines:
            command = [word.replace(":8640", f":{service.port}") for word in shlex.split(line)]
            done = subprocess.run([*command, "-sS"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, (line, done.stderr)
            assert done.stdout
    finally:
        service.process.kill()
        service.process.wait()


def test_the_configuration_on_the_page_can_be_read(tmp_path: Path) -> None:
    found = re.search(r'```toml title="service.toml"\n(.*?)```', PAGE, flags=re.DOTALL)
    assert found is not None
    (tmp_path / "service.toml").write_text(found[1])
    SCHEMA.save(tmp_path / "trips.toml")
    config = ServiceConfig.load(tmp_path / "service.toml")
    assert config.tokens == tmp_path / "service.tokens"
    assert config.runs["trips"].public


def test_limits_are_those_of_a_run_on_the_command_line_unless_given(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "trips.toml")
    run = '[runs.{name}]\nschema = "trips.toml"\nepsilon = 1\n'
    text = run.format(name="a") + run.format(name="b") + 'rows = "all"\nkeep = "all"\n'
    (tmp_path / "service.toml").write_text(text)
    runs = ServiceConfig.load(tmp_path / "service.toml").runs
    options = inspect.signature(run_command).parameters
    assert (str(runs["a"].rows), str(runs["a"].keep)) == (options["rows"].default, options["keep"].default)
    assert (runs["b"].rows, runs["b"].keep) == (None, None)
    assert runs["a"].mechanism == options["mechanism"].default == "auto"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("port = 8640", "at least one run"),
        ("prot = 8640", "prot is not a setting"),
        ('[runs."a/b"]\nschema = "trips.toml"\nepsilon = 1', "letters, digits"),
        ("[runs.trips]\nepsilon = 1", "schema is missing"),
        ('[runs.trips]\nschema = "trips.toml"', "epsilon is missing"),
        ('[runs.trips]\nschema = "trips.toml"\nepsilon = 1\nevery = "never"', "neither a number"),
        ('[limits]\nrecords = 0\n[runs.trips]\nschema = "trips.toml"\nepsilon = 1', "above 0"),
        ('host = "0.0.0.0"\n[runs.trips]\nschema = "trips.toml"\nepsilon = 1', "without tokens"),
        (
            '[runs.a]\nschema="trips.toml"\nepsilon=1\nout="o"\n[runs.b]\nschema="trips.toml"\nepsilon=1\nout="o"',
            "share",
        ),
        ('[runs.trips]\nschema = "trips.toml"\nepsilon = 1\nkeep = 0', "runs.trips.keep must be a whole number"),
        ('[runs.trips]\nschema = "trips.toml"\nepsilon = 1\npublic = "no"', "runs.trips.public must be true or false"),
        ("[[", "not TOML"),
    ],
)
def test_a_configuration_that_is_wrong_says_where(tmp_path: Path, text: str, problem: str) -> None:
    SCHEMA.save(tmp_path / "trips.toml")
    (tmp_path / "service.toml").write_text(text)
    with pytest.raises(ValueError, match=problem) as caught:
        ServiceConfig.load(tmp_path / "service.toml")
    assert str(tmp_path / "service.toml") in str(caught.value)
