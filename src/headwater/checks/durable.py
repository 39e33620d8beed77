"""The durable run, in processes that are killed: what is published is what one undisturbed process publishes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headwater.checks.cases import SCHEMAS, Case, expect
from headwater.public.protocol import modules_of
from headwater.public.schema import Schema

ROWS, EVERY = 600, 100
KILLS = (("update", 3), ("measured", 1), ("update", 4), ("measured", 2), ("state", 2))
"""Which call of the mechanism is the last of its process: its name, and how many of these calls there were."""

_SCRIPT = """
import json, os, signal, sys
from headwater.cli import app  # imported once for all processes
from headwater.cli.__main__ import main
from headwater.public.protocol import MODULES
from headwater.secret.mechanism import mechanism_class

name, modules, jobs, *arguments = sys.argv[1:]
MODULES[name] = tuple(json.loads(modules))
sys.argv = ["headwater", *arguments]

def run(folder, method, calls):
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if method:
        kind, left = mechanism_class(name), [calls]
        usual = getattr(kind, method)
        def last(self, *given):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return usual(self, *given)
        setattr(kind, method, last)
    main()

codes = []
for job in json.loads(jobs):
    child = os.fork()
    if not child:
        run(*job)
        os._exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(codes)
"""
"""Runs the command once for each job, in a process of its own, and prints the exit codes."""


def check_a_killed_run_goes_on(case: Case) -> None:
    """Kill `headwater run` in the middle of the mechanism's work, again and again; what is published is the same."""
    with tempfile.TemporaryDirectory() as place:
        for name in ("killed", "alone"):
            (Path(place) / name).mkdir()
            _write(Path(place) / name, Case(case.mechanism, SCHEMAS["table"]))
        jobs = [("alone", "", 0), *(("killed", *kill) for kill in KILLS), ("killed", "", 0)]
        alone, *killed, after = _run(case, [(str(Path(place) / name), *kill) for name, *kill in jobs])
        expect(alone == 0, "headwater run does not end well")
        expect(killed.count(-9) > 1, "nothing was killed: the run never called the mechanism")
        expect(after == 0, "a run that was killed does not go on")
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


def _run(case: Case, jobs: Sequence[tuple[Any, ...]]) -> list[int]:
    """The exit codes of processes that take the file, each in its folder; some are killed at some call of a method."""
    arguments = [case.mechanism, json.dumps(modules_of(case.mechanism)), json.dumps(jobs)]
    arguments += ["run", "in.csv", "--schema", "schema.json", "--epsilon", "8", "--out", "out", "--seed", "5"]
    arguments += ["--mechanism", case.mechanism, "--every", str(EVERY), "--format", "csv"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        "PYTHONWARNINGS": "ignore",
        "SOURCE_DATE_EPOCH": "1700000000",
    }
    command = [sys.executable, "-c", _SCRIPT, *arguments]
    done = subprocess.run(command, env=environment, check=False, capture_output=True)  # noqa: S603
    expect(done.returncode == 0, "the processes of a durable run could not be started")
    codes: list[int] = json.loads(done.stdout)
    return codes


def _content(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


CHECKS = (check_a_killed_run_goes_on,)
