"""All or nothing: an update that is interrupted at any line has happened or has not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import headwater
from headwater.checks.cases import Case, expect, same
from headwater.synthesizer import Synthesizer

PLACES = 24  # lines at which an update is interrupted


def check_an_interrupted_update_is_all_or_nothing(case: Case) -> None:
    """Raise an error or `KeyboardInterrupt` at lines all over an update, and go on as if nothing had been."""
    run = case.start(8.0)
    run.update(case.batch(37, 1))
    run.release()
    before, batch = run.to_bytes(), case.batch(300, 2)
    with interrupted(case, None) as counted:
        run.update(batch)
    after, undisturbed, lines = run.to_bytes(), run.release(), counted[0]
    for number in range(PLACES):
        synth = Synthesizer.from_bytes(before)
        synth.release()  # so that what it keeps besides its state is there, and could go wrong
        error = KeyboardInterrupt if number % 2 else OSError
        try:
            with interrupted(case, 1 + number * (lines - 1) // (PLACES - 1), error):
                synth.update(batch)
        except (KeyboardInterrupt, OSError):
            pass
        found = synth.to_bytes()
        expect(found in (before, after), "an interrupted update was counted in part")
        if found == before:
            synth.release()
            synth.update(batch)
        expect(same(synth.release(), undisturbed), "after an interrupted update something else is published")


def check_what_an_interrupted_update_read_is_forgotten(case: Case) -> None:
    """Interrupt updates, take other records instead, and compare with a run that never saw the first ones."""
    wanted, refused = case.batch(900, 2), case.batch(1200, 3)
    plain = case.start(8.0)
    plain.update(case.batch(600, 1))
    before = plain.to_bytes()
    with interrupted(case, None) as counted:
        Synthesizer.from_bytes(before).update(refused)
    plain.update(wanted)
    for number in range(PLACES):
        synth = Synthesizer.from_bytes(before)
        try:
            with interrupted(case, counted[0] * (number + 1) // (PLACES + 1)):
                synth.update(refused)
        except KeyboardInterrupt:
            if synth.t > 600:  # it had happened already
                continue
            synth.update(wanted)
            expect(same(synth.release(), plain.release()), "records of an interrupted update show in a release")


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


CHECKS = (check_an_interrupted_update_is_all_or_nothing, check_what_an_interrupted_update_read_is_forgotten)
