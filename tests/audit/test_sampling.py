"""Sampling, its bounds and the report; what the mechanisms themselves pass is in `test_sound.py`."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from headwater.audit import AuditReport, Case, Finding, Pair, run_audit
from headwater.audit.cases import Draws, heap, kind_of_pair
from headwater.audit.sampled import best_event, epsilon_lower, judge, lower, sample, upper
from headwater.cli.exit_codes import Exit
from headwater.public import protocol
from headwater.public.budget import Guarantee
from headwater.public.cube import unit_cube
from tests.support.audit_pairs import SCHEMA

COUNTS = Case("counts", "paper", 2.0, kind_of_pair("corner", heap(4, 1), 1), (4,), noisy_counts=True)
DRAWS = Draws("draws", Guarantee(2.0))
N = 1000


@pytest.mark.parametrize(("hits", "runs"), [(0, 1), (1, 1), (0, 100), (3, 100), (100, 100), (700, 1000), (5, 10**6)])
@pytest.mark.parametrize("alpha", [0.05, 0.0005, 1e-6])
def test_bounds_are_where_the_binomial_tail_is_alpha(hits: int, runs: int, alpha: float) -> None:
    """Clopper and Pearson's definition: as many hits or more, or as few or fewer, have a probability of alpha there."""
    low, high = lower(hits, runs, alpha), upper(hits, runs, alpha)
    assert low == 0 if hits == 0 else math.isclose(stats.binom.sf(hits - 1, runs, low), alpha, rel_tol=1e-6)
    assert high == 1 if hits == runs else math.isclose(stats.binom.cdf(hits, runs, high), alpha, rel_tol=1e-6)


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.2), (0.01, 0.002), (0.9, 0.9), (0.3, 0.0)])
def test_the_bound_is_wrong_as_rarely_as_it_says(p: float, q: float) -> None:
    """Exactly, over all outcomes of 24 runs of each: not one simulation."""
    runs, alpha = 24, 0.05
    chance = np.outer(stats.binom.pmf(range(runs + 1), runs, p), stats.binom.pmf(range(runs + 1), runs, q))
    true = math.log(p / q) if q else math.inf
    bound = np.array([[epsilon_lower((a, b), (runs, runs), alpha) for b in range(runs + 1)] for a in range(runs + 1)])
    assert chance[bound > true].sum() <= alpha


def test_a_bound_comes_near_the_truth_and_not_beyond_and_many_cases_make_an_alarm_harder() -> None:
    """One draw is exactly ε-private; the bound is above ε with a probability of at most 0.1%, and the seed is fixed."""
    columns = [DRAWS.columns(side, 0, seed=1) for side in (0, 1)]
    alone, among = judge(DRAWS, columns), judge(DRAWS, columns, among=1000)
    assert 1.85 < alone.lower <= 2.0  # type: ignore[operator]
    assert alone.lower == among.lower == alone.certain > among.certain  # type: ignore[operator]
    assert not alone.alarm


def test_runs_without_a_seed_are_never_the_same() -> None:
    one, other = (DRAWS.columns(0, 20) for _ in range(2))
    assert one != other


def normal(seed: int, shift: float = 0.0) -> list[Any]:
    values: list[Any] = (np.random.default_rng(seed).normal(size=N) + shift).tolist()
    return values


RARE = [7 if i % 10 == 0 else 3 for i in range(N)]
TOLD_APART: list[tuple[dict[str, tuple[list[Any], list[Any]]], str, Callable[[float], bool]]] = [
    ({"x": (normal(1), normal(2)), "shifted": (normal(3), normal(4, 3.0))}, "shifted ≥", lambda apart: apart > 0.5),
    ({"count": ([3] * N, RARE), "x": (normal(1), normal(2))}, "count", lambda apart: apart == 0.1),
    ({x: (normal(i), normal(i + 1, 1.0)) for i, x in enumerate("xyz")}, "log ratio of (", lambda apart: apart > 0.3),
    ({"x": (normal(1), normal(2)), "y": (normal(3), normal(4))}, "", lambda apart: apart < 0.1),
    *(
        ({"word": ([one] * N, [other] * N)}, "word", lambda apart: apart == 1.0)
        for one, other in [("a", "b"), (None, "b"), (None, 3.0), (math.nan, 3.0), (True, False), (math.inf, 2)]
    ),
]
"""What is seen on two streams; what the event is about; and how much more frequent it is on one of them."""


@pytest.mark.parametrize(("columns", "name", "holds"), TOLD_APART)
def test_the_event_that_tells_streams_apart_is_found(
    columns: dict[str, tuple[list[Any], list[Any]]], name: str, holds: Callable[[float], bool]
) -> None:
    fit, choose = (
        [{n: both[side][half] for n, both in columns.items()} for side in (0, 1)]
        for half in (slice(N // 2), slice(N // 2, N))
    )
    event = best_event(fit, choose)
    one, other = (float(event.holds(side).mean()) for side in choose)
    assert name in str(event)
    assert holds(abs(one - other))
    assert abs(one - other) < 0.1 or event.likelier == int(other > one)


@pytest.mark.parametrize("mechanism", protocol.online())
def test_a_run_that_has_measured_nothing_yet_gives_a_bound_of_zero(mechanism: str) -> None:
    case = Case("short", mechanism, 1.0, kind_of_pair("corner", heap(1, 2), 0), (1,), noisy_counts=True)
    assert sample(case, 40, seed=0).certain == 0


def test_a_report_is_a_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    report = run_audit(40, only="paper, noisy counts, d = 2, ε = 4", seed=0, show=True)
    report = AuditReport(report.version, report.findings + run_audit(0, only="paper, ledger, d = 1").findings)
    found = json.loads(report.to_json())
    assert found["passed"]
    assert found["confidence"] == 0.999
    assert [one["runs"] for one in found["findings"]] == [40, 0, 0, 0]
    assert all(0 <= one["lower"] <= one["claimed"] and one["how"] for one in found["findings"])
    assert "paper, noisy counts, d = 2" in str(report)
    assert "99.9" in str(report)
    assert "1/1 paper" in capsys.readouterr().err


@pytest.mark.parametrize("loss", [1.5, None])
def test_a_refuted_claim_is_an_alarm(loss: float | None) -> None:
    report = AuditReport("0", (Finding("check", 1.0, loss, loss, "computed"),))
    assert not report.passed
    assert report.alarms == ["check"]
    assert "ALARM: check" in str(report)


def test_without_scipy_the_audit_says_what_to_install_before_it_begins() -> None:
    """In a process of its own, since this one has imported it."""
    script = "import sys; sys.modules['scipy'] = None; from headwater.cli.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", script, "audit"], capture_output=True, text=True, check=False)
    assert done.returncode == Exit.MISSING
    assert "pip install 'headwater[audit]'" in done.stderr


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: Case("x", "magic", 1.0, COUNTS.pair), "mechanism must be one of"),
    (lambda: Case("x", "cascade", 1.0, kind_of_pair("corner", heap(4, 2), 0), (3, 2)), "times must rise"),
    (lambda: Pair(unit_cube(1), ((0.0,), (1.0,)), ((1.0,), (0.0,))), "differ in exactly one place"),
    (lambda: Pair(unit_cube(1), ((0.0,),), ((0.0,),)), "differ somewhere"),
    (lambda: Pair(SCHEMA, ({"p": 1}, {"p": 2}), ({"p": 3}, {"p": 3}), "p"), "records of one person"),
    (lambda: Pair(SCHEMA, ({"p": 1}, {"p": None}), ({"p": 3}, {"p": 3}), "p"), "records of one person"),
    (lambda: sample(COUNTS, 4, 0), "too few"),
    (lambda: best_event([{}, {}], [{}, {}]), "no feature in common"),
    (lambda: run_audit(only="nosuchthing"), "nothing is called"),
    (lambda: run_audit(runs=3), "runs must be"),
    (lambda: run_audit(runs=-5), "runs must be"),
    *(
        (lambda wrong=wrong: lower(*wrong), "no bound")
        for wrong in [(2, 1, 0.1), (0, 0, 0.1), (1, 2, 0.0), (-1, 2, 0.5)]
    ),
]


@pytest.mark.parametrize(("question", "why"), WRONG)
def test_wrong_questions_are_refused(question: Callable[[], object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        question()
