"""The durable run, in processes that are killed: what is published is what one undisturbed process publishes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from headwater.checks.cases import SCHEMAS, Case, expect
from headwater.mechanisms.registry import folder_of
from headwater.table.schema import Schema

ROWS, EVERY = 600, 100
KILLS = (("update", 3), ("measured", 1), ("update", 4), ("measured", 2), ("state", 2))
"""Which call of the mechanism is the last of its process: its name, and how many of these calls there were."""

_SCRIPT = """
import os, signal, sys
from headwater.mechanisms import registry
from headwater.cli.__main__ import main

name, folder, method, calls, *arguments = sys.argv[1:]
registry.register(name, folder)
if method:
    kind, left = registry.mechanism(name), [int(calls)]
    usual = getattr(kind, method)
    def last(self, *given):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return usual(self, *given)
    setattr(kind, method, last)
sys.argv = ["headwater", *arguments]
main()
"""


def check_a_killed_run_goes_on(case: Case) -> None:
    """Kill `headwater run` in the middle of the mechanism's work, again and again; what is published is the same."""
    table = Case(case.mechanism, SCHEMAS["table"])
    with tempfile.TemporaryDirectory() as place:
        for name in ("killed", "alone"):
            folder = Path(place) / name
            folder.mkdir()
            _write(folder, table)
        expect(_run(Path(place) / "alone", case) == 0, "headwater run does not end well")
        killed = sum(_run(Path(place) / "killed", case, *kill) == -9 for kill in KILLS)
        expect(killed > 1, "nothing was killed: the run never called the mechanism")
        expect(_run(Path(place) / "killed", case) == 0, "a run that was killed does not go on")
        one, other = (_content(Path(place) / name / "out") for name in ("killed", "alone"))
    expect(one.keys() == other.keys(), "a run that was killed publishes at other times")
    expect(len(other) >= 2 * (ROWS // EVERY), "not every release was published")
    expect(one == other, "a run that was killed publishes something else")


def _write(folder: Path, case: Case) -> None:
    """The records as a file, and the schema."""
    assert isinstance(case.schema, Schema)  # noqa: S101 - for the type checker
    case.schema.save(folder / "schema.json")
    lines = [f"{r['size']!r},{'' if r['age'] is None else r['age']},{r['paid']}" for r in case.batch(ROWS, 3)]
    (folder / "in.csv").write_text("\n".join(["size,age,paid", *lines, ""]))


def _run(folder: Path, case: Case, method: str = "", calls: int = 0) -> int:
    """The exit code of a process that takes the file, and is killed at some call if one is named."""
    arguments = [case.mechanism, folder_of(case.mechanism), method, str(calls)]
    arguments += ["run", "in.csv", "--schema", "schema.json", "--epsilon", "8", "--out", "out", "--seed", "5"]
    arguments += ["--mechanism", case.mechanism, "--every", str(EVERY), "--format", "csv"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        "PYTHONWARNINGS": "ignore",
        "SOURCE_DATE_EPOCH": "1700000000",
    }
    command = [sys.executable, "-c", _SCRIPT, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True).returncode  # noqa: S603


def _content(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


CHECKS = (check_a_killed_run_goes_on,)
