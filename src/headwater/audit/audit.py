"""The whole audit: exact losses, ledgers and pairs of files, then sampled runs of the worst cases."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from headwater import __version__
from headwater.audit.events import Value
from headwater.audit.experiments import AuditAlarm, Draws, Experiment
from headwater.audit.files import check_files, file_pairs
from headwater.audit.findings import LEAST, AuditReport, ExactFinding, Finding, judge
from headwater.audit.losses import check_counting, check_ledgers, check_sensitivity
from headwater.audit.suite import noise, to_sample, to_trace
from headwater.audit.traits import traits_of
from headwater.public import protocol as registry
from headwater.public.budget import Budget
from headwater.public.cube import unit_cube


def run_audit(
    runs: int = 600,
    *,
    only: str | None = None,
    processes: int | None = None,
    seed: int | None = None,
    show: bool = False,
) -> AuditReport:
    """Try to refute every claim of Headwater; say how far that got.

    Parameters
    ----------
    runs
        On each stream of a pair; 0 for exact losses only.
    only
        Only experiments and checks whose name contains this.
    processes
        How many to use; all processors unless given.
    seed
        For tests only. Without it every run has a key from the operating system.
    show
        Whether to say on standard error how far it is.

    Examples
    --------
    >>> run_audit(only="ledger, d = 1, ε = 1").passed
    True
    """
    if runs and runs < LEAST:
        raise ValueError(f"runs must be 0 or at least {LEAST}: half of them choose an event, the others count it")

    def wanted(name: str) -> bool:
        return only is None or only in name

    computed = tuple(_computed(wanted, _progress("exact", show)))
    cases: list[Experiment | Draws] = [one for name in registry.names() for one in to_sample(name)] if runs else []
    cases += noise(1.0) if runs else []
    sampled = audit_pairs([one for one in cases if wanted(one.name)], runs, processes=processes, seed=seed, show=show)
    if not (computed or sampled):
        raise ValueError(f"nothing is called {only!r}; without only= everything is audited")
    return AuditReport(__version__, tuple(sampled), computed)


def audit_pairs(
    experiments: Sequence[Experiment | Draws],
    runs: int,
    *,
    processes: int | None = None,
    seed: int | None = None,
    show: bool = False,
) -> list[Finding]:
    """Sample experiments and judge them together. With several processes, call it from a module, not a script."""
    say, columns = _progress("sampled", show), list[dict[str, list[Value]]]()
    tasks = [(one, side, runs, seed) for one in experiments for side in (0, 1)]
    for (one, *_), found in zip(tasks, _sampled(tasks, processes), strict=True):
        columns.append(found)
        say(f"{len(columns)}/{len(tasks)} {one.name}")
    both = zip(columns[::2], columns[1::2], strict=True)
    return [judge(one, of_one, experiments=len(tasks) // 2) for one, of_one in zip(experiments, both, strict=True)]


_Task = tuple[Experiment | Draws, int, int, int | None]  # the stream, how many runs, the first one's seed


def _run(task: _Task) -> dict[str, list[Value]]:
    experiment, side, runs, seed = task
    return experiment.columns(side, runs, seed)


def _sampled(tasks: Sequence[_Task], processes: int | None) -> Iterator[dict[str, list[Value]]]:
    count = min(processes or os.cpu_count() or 1, max(len(tasks), 1))
    if count == 1:
        yield from map(_run, tasks)
        return
    context = multiprocessing.get_context("spawn")  # a forked process would share what must not be shared
    with ProcessPoolExecutor(count, mp_context=context, initializer=_watch_parent) as pool:
        yield from pool.map(_run, tasks)


def _watch_parent() -> None:
    """End this worker when the process that started it is gone: a killed audit must leave nothing running."""
    parent = multiprocessing.parent_process()

    def leave() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def _computed(wanted: Callable[[str], bool], say: Callable[[str], None]) -> Iterator[ExactFinding]:
    for name, claimed, how, compute in _computations():
        if wanted(name):
            say(name)
            try:
                yield ExactFinding(name, claimed, compute(), how)
            except AuditAlarm as alarm:
                yield ExactFinding(name, claimed, None, str(alarm))


def _computations() -> Iterator[tuple[str, float, str, Callable[[], float]]]:
    for pair in file_pairs():
        name = f"files: {pair.name} ({pair.file})"
        yield name, 0.0, "when releases come, their sizes, the exit code: all the same", lambda p=pair: check_files(p)  # type: ignore[misc]
    how = "the largest of the outputs tried; nothing else published differs"
    for experiment in [one for name in registry.names() for one in to_trace(name)]:
        yield experiment.name, experiment.epsilon, how, lambda e=experiment: _loss(e)  # type: ignore[misc]
    for dimension, epsilon in [(1, 0.1), (1, 1.0), (2, 1.0), (2, 50.0), (5, 2.0), (16, 1.0)]:
        for name in registry.names():
            for delta in (0.0, 1e-9) if traits_of(name).deltas else (0.0,):
                of, title = (name, unit_cube(dimension), Budget(epsilon, delta)), f"{name}, ledger, d = {dimension}"
                how = "the largest total, to 2^40 records"
                yield f"{title}, {of[2]}", epsilon, how, lambda o=of: float(check_ledgers(*o))  # type: ignore[misc]


def _loss(experiment: Experiment) -> float:
    if experiment.person is None:
        check_counting(experiment)
    check_sensitivity(replace(experiment, files=True), outputs=1)  # every byte that could be published
    return float(check_sensitivity(experiment, outputs=2).cost(experiment.claim))


def _progress(what: str, show: bool) -> Callable[[str], None]:
    """Says on standard error how far it is, every few seconds."""
    last = [0.0]

    def say(text: str) -> None:
        if show and time.monotonic() - last[0] > 2:
            last[0] = time.monotonic()
            print(f"{what}: {text}", file=sys.stderr)

    return say
