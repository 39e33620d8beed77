"""A run that threads share, that is interrupted at any line, that is killed: it publishes what it would have anyway."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any

import headwater
from headwater.audit.cases import SCHEMAS, Case, expect, same
from headwater.audit.losses import check_draws
from headwater.audit.trace import watching
from headwater.public.protocol import modules_of
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.synthesizer import Synthesizer

RELEASING = 2  # threads
BATCHES, SIZE = 60, 41
PLACES = 24  # lines at which an update is interrupted
ROWS, EVERY = 600, 100
KILLS = (("update", 3), ("measured", 1), ("update", 4), ("measured", 2), ("state", 2))
"""Which call of the mechanism is the last of its process: its name, and how many of these calls there were."""


def check_threads(case: Case) -> None:
    """One thread updates while others release, with the usual switch interval and with a tiny one."""
    usual = sys.getswitchinterval()
    for interval in (usual, 1e-6):
        sys.setswitchinterval(interval)
        try:
            with watching(lambda address: 1 << 20 | (address[2] & 7)) as record:  # beyond every threshold
                found = _shared(case)
                check_draws(record)  # no address carries two numbers
                _compare(case, found)
                check_draws(record)
        finally:
            sys.setswitchinterval(usual)


def _shared(case: Case) -> list[Release]:
    synth, done = case.start(8.0), Event()

    def update() -> None:
        try:
            for number in range(BATCHES):
                synth.update(case.batch(SIZE, number))
        finally:
            done.set()

    def release() -> list[Release]:
        found = list[Release]()
        while not done.is_set():
            found.append(synth.release())
        return found

    with ThreadPoolExecutor(1 + RELEASING) as pool:
        updating, releasing = pool.submit(update), [pool.submit(release) for _ in range(RELEASING)]
    updating.result()
    expect(synth.t == BATCHES * SIZE, "records were lost between threads")
    return [*(one for future in releasing for one in future.result()), synth.release()]


def _compare(case: Case, found: list[Release]) -> None:
    """Each release is that of a run which only one thread has used."""
    alone, wanted = case.start(8.0), {release.t: release for release in found}
    for number in range(BATCHES):
        if alone.t in wanted:
            expect(same(alone.release(), wanted[alone.t]), "a release made beside an update is not that of any moment")
        alone.update(case.batch(SIZE, number))
    expect(wanted.keys() <= {number * SIZE for number in range(BATCHES + 1)}, "a release is about part of a batch")
    expect(same(alone.release(), wanted[alone.t]), "the last release is not that of an undisturbed run")


def check_an_interrupted_update_is_all_or_nothing(case: Case) -> None:
    """Interrupt an update at lines all over it; what did not happen is forgotten, and other records are taken."""
    refused, wanted = case.batch(1200, 2), case.batch(300, 3)
    start = case.start(8.0)
    start.update(case.batch(600, 1))
    start.release()  # so that what was measured for it is there, and could go wrong
    before = start.to_bytes()
    whole, other = Synthesizer.from_bytes(before), start
    with interrupted(case, None) as counted:
        whole.update(refused)
    other.update(wanted)  # a run that never saw the others
    releases = {before: other.release(), whole.to_bytes(): whole.release()}
    for number in range(PLACES):
        synth = Synthesizer.from_bytes(before)
        synth.release()
        error = KeyboardInterrupt if number % 2 else OSError
        try:
            with interrupted(case, 1 + number * (counted[0] - 1) // (PLACES - 1), error):
                synth.update(refused)
        except (KeyboardInterrupt, OSError):
            pass
        found = synth.to_bytes()
        expect(found in releases, "an interrupted update was counted in part")
        if found == before:
            synth.release()
            synth.update(wanted)
        expect(same(synth.release(), releases[found]), "after an interrupted update something else is published")


@contextmanager
def interrupted(case: Case, line: int | None, error: type[BaseException] = KeyboardInterrupt) -> Iterator[list[int]]:
    """Raise an error at some line of the package or the mechanism. Yields how many lines there were."""
    modules = [headwater, sys.modules[case.kind.__module__]]
    ours = [str(Path(module.__file__ or "").parent) for module in modules]
    counted, earlier = [0], sys.gettrace()

    def trace(frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401 - itself
        if not any(frame.f_code.co_filename.startswith(folder) for folder in ours):
            return None
        if event == "line":
            counted[0] += 1
            if counted[0] == line:
                raise error
        return trace

    sys.settrace(trace)
    try:
        yield counted
    finally:
        sys.settrace(earlier)


_SCRIPT = """
import json, os, signal, sys
from headwater.cli import app  # imported once for all processes
from headwater.cli.__main__ import main
from headwater.public import protocol
from headwater.secret.mechanism import mechanism_class

name, modules, jobs, *arguments = sys.argv[1:]
protocol.MODULES[name] = tuple(modules.split())
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
        folders = {name: Path(place) / name for name in ("killed", "alone")}
        for folder in folders.values():
            folder.mkdir()
            _write(folder, Case(case.mechanism, SCHEMAS["table"]))
        jobs = [("alone", "", 0), *(("killed", *kill) for kill in KILLS), ("killed", "", 0)]
        alone, *killed, after = _run(case, [(str(folders[name]), *kill) for name, *kill in jobs])
        expect(alone == 0, "headwater run does not end well")
        expect(killed.count(-9) > 1, "nothing was killed: the run never called the mechanism")
        expect(after == 0, "a run that was killed does not go on")
        one, other = (
            {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
            for out in (folder / "out" for folder in folders.values())
        )
    expect(one.keys() == other.keys(), "a run that was killed publishes at other times")
    expect(len(other) >= 2 * (ROWS // EVERY), "not every release was published")
    expect(one == other, "a run that was killed publishes something else")


def _write(folder: Path, case: Case) -> None:
    assert isinstance(case.schema, Schema)
    case.schema.save(folder / "schema.json")
    lines = [f"{r['size']!r},{'' if r['age'] is None else r['age']},{r['paid']}" for r in case.batch(ROWS, 3)]
    (folder / "in.csv").write_text("\n".join(["size,age,paid", *lines, ""]))


def _run(case: Case, jobs: list[tuple[Any, ...]]) -> list[int]:
    """The exit codes of processes that take the file, each in its folder; some are killed at some call of a method."""
    arguments = [case.mechanism, " ".join(modules_of(case.mechanism)), json.dumps(jobs)]
    arguments += ["run", "in.csv", "--schema", "schema.json", "--epsilon", "8", "--out", "out", "--seed", "5"]
    arguments += ["--mechanism", case.mechanism, "--every", str(EVERY), "--format", "csv"]
    environment = {
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        "PYTHONWARNINGS": "ignore",
        "SOURCE_DATE_EPOCH": "1700000000",
    }
    command = [sys.executable, "-c", _SCRIPT, *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, check=False, capture_output=True)
    expect(done.returncode == 0, "the processes of a durable run could not be started")
    codes: list[int] = json.loads(done.stdout)
    return codes


DISTURBED = (check_threads, check_an_interrupted_update_is_all_or_nothing, check_a_killed_run_goes_on)
