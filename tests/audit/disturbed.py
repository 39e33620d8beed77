"""A run that threads share, that is interrupted at any line, that is killed: it publishes what it would have anyway."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any

import headwater
from headwater.audit.conformance import SCHEMAS, Subject, expect, same
from headwater.audit.exact import check_draws
from headwater.audit.trace import watching
from headwater.public.release import Release
from headwater.synthesizer import Synthesizer
from tests.support.kept_runs import open_run, tables

RELEASING = 2  # threads
BATCHES, SIZE = 60, 41
PLACES = 24  # lines at which an update is interrupted
KILLS = (("update", 3), ("measured", 1), ("update", 4), ("measured", 2), ("state", 2))
"""Which call of the mechanism is the last of its process: its name, and how many of these calls there were."""


def check_threads(subject: Subject) -> None:
    """One thread updates while others release, with the usual switch interval and with a tiny one."""
    usual = sys.getswitchinterval()
    for interval in (usual, 1e-6):
        sys.setswitchinterval(interval)
        try:
            with watching(lambda address: 1 << 20 | (address[2] & 7)) as record:  # beyond every threshold
                found = _shared(subject)
                check_draws(record)  # no address carries two numbers
                _compare(subject, found)
                check_draws(record)
        finally:
            sys.setswitchinterval(usual)


def _shared(subject: Subject) -> list[Release]:
    synth, done = subject.start(8.0), Event()

    def update() -> None:
        try:
            for number in range(BATCHES):
                synth.update(subject.batch(SIZE, number))
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


def _compare(subject: Subject, found: list[Release]) -> None:
    """Each release is that of a run which only one thread has used."""
    alone, wanted = subject.start(8.0), {release.t: release for release in found}
    for number in range(BATCHES):
        if alone.t in wanted:
            expect(same(alone.release(), wanted[alone.t]), "a release made beside an update is not that of any moment")
        alone.update(subject.batch(SIZE, number))
    expect(wanted.keys() <= {number * SIZE for number in range(BATCHES + 1)}, "a release is about part of a batch")
    expect(same(alone.release(), wanted[alone.t]), "the last release is not that of an undisturbed run")


def check_an_interrupted_update_is_all_or_nothing(subject: Subject) -> None:
    """Interrupt an update at lines all over it; what did not happen is forgotten, and other records are taken."""
    refused, wanted = subject.batch(1200, 2), subject.batch(300, 3)
    start = subject.start(8.0)
    start.update(subject.batch(600, 1))
    start.release()  # so that what was measured for it is there, and could go wrong
    before = start.to_bytes()
    whole, other = Synthesizer.from_bytes(before), start
    with interrupted(subject, None) as counted:
        whole.update(refused)
    other.update(wanted)  # a run that never saw the others
    releases = {before: other.release(), whole.to_bytes(): whole.release()}
    for number in range(PLACES):
        synth = Synthesizer.from_bytes(before)
        synth.release()
        error = KeyboardInterrupt if number % 2 else OSError
        try:
            with interrupted(subject, 1 + number * (counted[0] - 1) // (PLACES - 1), error):
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
def interrupted(
    subject: Subject, line: int | None, error: type[BaseException] = KeyboardInterrupt
) -> Iterator[list[int]]:
    """Raise an error at some line of the package or the mechanism. Yields how many lines there were."""
    modules = [headwater, sys.modules[subject.kind.__module__]]
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


def check_a_killed_run_goes_on(subject: Subject) -> None:
    """Kill a durable run in the middle of the mechanism's work, again and again; what is published is the same."""
    with tempfile.TemporaryDirectory() as place:
        alone, killed = Path(place, "alone"), Path(place, "killed")
        expect(_child(subject, alone) == 0, "a durable run does not end well")
        codes = [_child(subject, killed, *kill) for kill in KILLS]
        expect(codes.count(-signal.SIGKILL) > 1, "nothing was killed: the run never called the mechanism")
        expect(_child(subject, killed) == 0, "a run that was killed does not go on")
        published = tables(alone)
        expect(len(published) == 6, "not every release was published")
        expect(tables(killed) == published, "a run that was killed publishes something else")


def _child(subject: Subject, folder: Path, method: str = "", calls: int = 0) -> int:
    """The exit code of a process that goes on with a run, until some call of a method, or to the end."""
    child = os.fork()
    if not child:  # pragma: no cover - in the child
        code = 1
        try:
            if method:
                setattr(subject.kind, method, _last(getattr(subject.kind, method), calls))
            records = Subject(subject.mechanism, SCHEMAS["table"]).batch(600, 3)
            how = {"schema": SCHEMAS["table"], "epsilon": 8.0, "mechanism": subject.mechanism}
            with open_run(folder, "100", **how) as run:
                run.publish_if_due()
                while run.t < len(records):
                    run.take(records[run.t : run.t + 50])
                    run.publish_if_due()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _last(usual: Callable[..., Any], calls: int) -> Callable[..., Any]:
    left = [calls]

    def last(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - handed on
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return usual(*given, **named)

    return last


DISTURBED = (check_threads, check_an_interrupted_update_is_all_or_nothing, check_a_killed_run_goes_on)
