"""A run that several threads share: nothing is measured twice with the same noise."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from headwater.audit.checks import check_draws
from headwater.audit.trace import Address, watching
from headwater.checks.cases import Case, expect, same
from headwater.public.release import Release

RELEASING = 2  # threads
BATCHES, SIZE = 60, 41


def check_threads(case: Case) -> None:
    """One thread updates while others release, with the usual switch interval and with a tiny one."""
    usual = sys.getswitchinterval()
    for interval in (usual, 1e-6):
        sys.setswitchinterval(interval)
        try:
            with watching(_chosen) as record:
                found = _shared(case)
                check_draws(record)  # no address carries two numbers
                _compare(case, found)
                check_draws(record)
        finally:
            sys.setswitchinterval(usual)


def _chosen(address: Address) -> int:
    return 1 << 20 | (address[2] & 7)  # beyond every threshold


def _shared(case: Case) -> list[Release]:
    synth, found, errors, done = case.start(8.0), list[Release](), list[BaseException](), threading.Event()

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        return run

    def update() -> None:
        try:
            for number in range(BATCHES):
                synth.update(case.batch(SIZE, number))
        finally:
            done.set()

    def release() -> None:
        while not done.is_set():
            found.append(synth.release())

    threads = [threading.Thread(target=guarded(work)) for work in (update, *[release] * RELEASING)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    expect(synth.t == BATCHES * SIZE, "records were lost between threads")
    return [*found, synth.release()]


def _compare(case: Case, found: list[Release]) -> None:
    """Each release is that of a run which only one thread has used."""
    alone, wanted = case.start(8.0), {release.t: release for release in found}
    for number in range(BATCHES):
        if alone.t in wanted:
            expect(same(alone.release(), wanted[alone.t]), "a release made beside an update is not that of any moment")
        alone.update(case.batch(SIZE, number))
    expect(wanted.keys() <= {number * SIZE for number in range(BATCHES + 1)}, "a release is about part of a batch")
    expect(same(alone.release(), wanted[alone.t]), "the last release is not that of an undisturbed run")


CHECKS = (check_threads,)
