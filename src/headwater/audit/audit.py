"""The whole audit: exact checks, worst cases picked by hand, a random search."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

import headwater
from headwater.audit.checks import check_counting, check_ledger, check_sensitivity
from headwater.audit.edges import check_files, check_tables, file_pairs
from headwater.audit.exact import linear_loss
from headwater.audit.experiments import AuditAlarm, Experiment
from headwater.audit.findings import ALPHA, Finding, judge
from headwater.audit.page import AuditReport, ExactFinding
from headwater.audit.runner import Progress, run_experiments
from headwater.audit.sealing import sparse_loss
from headwater.audit.suite import (
    DELTA,
    SIZES,
    at_random,
    handpicked,
    long_cascade,
    people,
    people_in_pairs,
    tables,
    with_delta,
    worst_cases,
)
from headwater.public import protocol as registry
from headwater.public.budget import Budget
from headwater.public.unit_cube import unit_cube
from headwater.secret.counters import BinaryCounter, HybridCounter
from headwater.secret.mechanism import mechanism_class
from headwater.secret.noise import Noise

SCREEN = 400  # runs on each stream of a random pair before those with the strongest events are run in full
KEEP = 6  # of these
LEAST = 8  # runs on each stream


def run_audit(
    size: str = "standard",
    *,
    runs: int | None = None,
    only: str | None = None,
    search: int = 0,
    exact: bool = True,
    sampled: bool = True,
    processes: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    show: bool = False,
) -> AuditReport:
    """Try to refute every claim of Headwater; say how far that got.

    Parameters
    ----------
    size
        ``"quick"`` (about a minute), ``"standard"`` or ``"full"`` (hours): which worst cases, and how often they run.
    runs
        On each stream of a pair, if not the number that belongs to the size.
    only
        Only experiments and checks whose name contains this.
    search
        How many random pairs to screen. Those with the strongest events are then run in full, with new keys.
    exact, sampled
        Whether to compute exact losses, and whether to sample.
    processes
        How many to use; all processors unless given.
    checkpoint
        A file that finished work is kept in. Called again with the same file, an interrupted audit goes on.
    seed
        For tests only. Without it every run has a key from the operating system.
    show
        Whether to say on standard error how far it is.
    """
    if size not in SIZES:
        raise ValueError(f"size must be one of {', '.join(SIZES)}, not {size!r}")
    if runs is not None and runs < LEAST:
        raise ValueError(f"runs must be at least {LEAST}: half of them choose an event, the others count it")
    if search < 0:
        raise ValueError(f"search must not be negative, not {search}")
    runs = SIZES[size] if runs is None else runs

    def wanted(name: str) -> bool:
        return only is None or only in name

    computed = tuple(exact_findings(size, wanted, show)) if exact else ()
    experiments = [one for one in handpicked(size) if wanted(one.name)] if sampled else []
    screened = [one for one in at_random(search, seed or 0) if wanted(one.name)] if sampled else []
    if not (computed or experiments or screened):
        raise ValueError(f"nothing is called {only!r}; without only= everything is audited")
    options = {"processes": processes, "checkpoint": checkpoint, "seed": seed}
    with _progress(show) as progress:
        best: list[tuple[float, Experiment]] = []
        for experiment, columns in run_experiments(screened, SCREEN, phase="screen", progress=progress, **options):  # type: ignore[arg-type]
            found = judge(experiment, columns)
            best.append((found.lower / experiment.claim.epsilon, experiment))
        best.sort(key=lambda pair: -pair[0])
        experiments += [experiment for _, experiment in best[:KEEP]]
        if seed is not None:
            options["seed"] = seed + 10**9  # the screened pairs' runs are not used again
        order = {experiment.name: place for place, experiment in enumerate(experiments)}
        findings: list[Finding] = []
        for experiment, columns in run_experiments(experiments, runs, progress=progress, **options):  # type: ignore[arg-type]
            findings.append(judge(experiment, columns, experiments=len(experiments)))
    findings.sort(key=lambda found: order[found.name])
    return AuditReport(headwater.__version__, 1 - ALPHA, tuple(findings), computed, len(screened))


def exact_findings(
    size: str = "standard", wanted: Callable[[str], bool] = lambda _: True, show: bool = False
) -> Iterator[ExactFinding]:
    """Losses that are computed: counters on all outputs, releases on those of the largest loss, ledgers."""
    for name, claimed, how, compute in _computations(size):
        if not wanted(name):
            continue
        if show:
            print(f"exact: {name}", file=sys.stderr)
        try:
            yield ExactFinding(name, claimed, compute(), how)
        except AuditAlarm as alarm:
            yield ExactFinding(name, claimed, None, str(alarm))


def _computations(size: str) -> Iterator[tuple[str, float, str, Callable[[], float]]]:
    every = "every output of a box, every pair of neighbours"
    for horizon, epsilon in [(1, 0.5), (2, 1.0), (4, 1.0), (5, 3.0)]:
        yield (
            f"binary counter, {horizon} steps, ε = {epsilon:g}", epsilon, every,
            lambda h=horizon, e=epsilon: linear_loss(lambda noise: BinaryCounter(h, epsilon=e, noise=noise), h),  # type: ignore[misc]
        )  # fmt: skip
        yield (
            f"hybrid counter, {horizon} steps, ε = {4 * epsilon:g}", 4 * epsilon, every,
            lambda h=horizon, e=epsilon: linear_loss(lambda noise: HybridCounter(epsilon=4 * e, noise=noise), h),  # type: ignore[misc]
        )  # fmt: skip
    for horizon, epsilon, constant in [(2, 4.0, 9.0), (3, 4.0, 0.5), (4, 6.0, 1.0)]:
        yield (
            f"sparse counter, {horizon} steps, ε = {epsilon:g}", epsilon, "every cut, every pair of neighbours",
            lambda h=horizon, e=epsilon, c=constant: sparse_loss(h, e, c)[1],  # type: ignore[misc]
        )  # fmt: skip
        yield (
            f"inhomogeneous counter, a level of {horizon} steps, ε = {2 * epsilon:g}", 2 * epsilon,
            "by composition: its sparse counter, every cut, and half of ε for its total",
            lambda h=horizon, e=epsilon, c=constant: sparse_loss(h, e, c)[1] + e,  # type: ignore[misc]
        )  # fmt: skip
    for pair in file_pairs():
        yield (
            f"files: {pair.name} ({pair.file})", 0.0, "when releases come, their sizes, the exit code: all the same",
            lambda one=pair: check_files(one),  # type: ignore[misc]
        )  # fmt: skip
    yield "tables: a float among whole numbers", 0.0, "what is kept of other records is the same", check_tables
    for experiment in _traced(size):
        yield (
            experiment.name, experiment.epsilon, "the largest of the outputs tried; nothing else published differs",
            lambda one=experiment: _sensitivity(one, outputs=2 if size == "quick" else 4),  # type: ignore[misc]
        )  # fmt: skip
    for dimension, epsilon in [(1, 0.1), (1, 1.0), (2, 1.0), (2, 50.0), (5, 2.0), (16, 1.0)]:
        for name in registry.names():
            for delta in (0.0, 1e-9) if mechanism_class(name).deltas else (0.0,):
                budget = Budget(epsilon, delta)
                yield (
                    f"{name}, ledger, d = {dimension}, {budget}", epsilon, "the largest total, to 2^40 records",
                    lambda n=name, d=dimension, b=budget: float(_ledger(n, d, b)),  # type: ignore[misc]
                )  # fmt: skip


def _traced(size: str) -> list[Experiment]:
    """Releases, windows, cards and saved states, for pairs at every time at which something is measured."""
    settings = (
        [(2, 8.0)] if size == "quick" else [(1, 0.5), (1, 8.0), (1, 64.0), (2, 1.0), (2, 8.0), (2, 64.0), (3, 8.0)]
    )
    found = [one for name in registry.names() for d, epsilon in settings for one in worst_cases(name, d, epsilon)]
    found += [one for name in registry.online() for one in (*tables(name, 8.0), *people(name, 8.0))]
    with_deltas = [name for name in registry.names() if mechanism_class(name).deltas]
    found += with_delta([one for name in with_deltas for one in worst_cases(name, 2, 4.0)], DELTA)
    found += with_delta([one for name in with_deltas for one in people(name, 8.0)], DELTA)
    found += [*people_in_pairs(192.0), *people_in_pairs(16.0, delta=DELTA)][:: 3 if size == "quick" else 1]
    long = (
        [(2, 64.0, 1100)] if size == "quick" else [(1, 20.0, 3000), (2, 20.0, 6000), (2, 64.0, 1100), (2, 500.0, 700)]
    )
    return [*found, *(long_cascade(*setting) for setting in long)]


def _sensitivity(experiment: Experiment, outputs: int) -> float:
    if experiment.person is None:
        check_counting(experiment)
    check_sensitivity(replace(experiment, files=True), outputs=1)  # every byte that could be published
    return float(check_sensitivity(experiment, outputs=outputs).cost(experiment.claim))


def _ledger(name: str, dimension: int, budget: Budget) -> Fraction:
    """The largest total of a mechanism's ledger, at times that are twice as late each time."""
    mechanism = mechanism_class(name)(unit_cube(dimension), budget, Noise(seed=0))  # nothing is measured with it
    return max(check_ledger(mechanism.ledger(t), budget) for t in [0, *(1 << q for q in range(0, 41, 4))])


@contextmanager
def _progress(show: bool) -> Iterator[Progress | None]:
    """A bar if rich is there, else a line every few seconds; on standard error."""
    if not show:
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress as Bar
    except ImportError:
        last = [time.monotonic()]

        def say(done: int, total: int, name: str) -> None:
            if done == total or time.monotonic() - last[0] > 5:
                last[0] = time.monotonic()
                print(f"{done}/{total} chunks: {name}", file=sys.stderr)

        yield say
        return
    with Bar(console=Console(stderr=True)) as bar:
        task = bar.add_task("audit", total=None)
        yield lambda done, total, name: bar.update(task, completed=done, total=total, description=name[:60])


def audit_pairs(experiments: Sequence[Experiment], runs: int, **options: object) -> list[Finding]:
    """Sample experiments of one's own and judge them together; options are those of `run_experiments`."""
    found = run_experiments(experiments, runs, **options)  # type: ignore[arg-type]
    return [judge(experiment, columns, experiments=len(experiments)) for experiment, columns in found]
