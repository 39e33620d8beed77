"""Sampling and the report; what the mechanisms themselves pass is in `test_sound.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater.audit import AuditReport, ExactFinding, Experiment, Pair, audit_pairs, judge, run_audit
from headwater.audit.experiments import NOISE, Draws
from headwater.audit.streams import heap, kind_of_pair
from headwater.public import protocol as registry
from headwater.public.budget import Guarantee

COUNTS = Experiment("counts", "paper", 2.0, kind_of_pair("corner", heap(4, 1), 1), (4,), noisy_counts=True)
DRAWS = Draws("draws", NOISE, Guarantee(2.0))


def test_a_bound_comes_near_the_truth_and_not_beyond() -> None:
    """One draw is exactly ε-private; the bound is above ε with a probability of at most 0.1%, and the seed is fixed."""
    (found,) = audit_pairs([DRAWS], 0, processes=1, seed=1)
    assert 1.85 < found.lower <= 2.0
    assert found.certain <= found.lower
    assert not found.alarm


def test_many_experiments_make_an_alarm_harder() -> None:
    columns = [DRAWS.columns(side, 4000, seed=5) for side in (0, 1)]
    alone, among = judge(DRAWS, columns), judge(DRAWS, columns, experiments=1000)
    assert alone.lower == among.lower == alone.certain > among.certain


def test_runs_do_not_depend_on_how_many_processes_there_are() -> None:
    found = [audit_pairs([COUNTS, DRAWS], 40, processes=processes, seed=3) for processes in (1, 2)]
    assert found[0] == found[1]


def test_runs_without_a_seed_are_never_the_same() -> None:
    one, other = (DRAWS.columns(0, 20) for _ in range(2))
    assert one != other


def test_a_killed_audit_leaves_no_process_behind(tmp_path: Path) -> None:
    """Workers inherit standard output: it ends, and the test with it, only when the last of them is gone."""
    script = tmp_path / "killed.py"
    script.write_text(
        """
import os, signal, threading
from headwater.audit import Experiment, audit_pairs
from headwater.audit.experiments import NOISE, Draws
from headwater.audit.streams import heap, kind_of_pair

if __name__ == "__main__":
    experiment = Experiment("counts", "cascade", 2.0, kind_of_pair("corner", heap(9, 1), 1), (9,))
    threading.Timer(6, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    audit_pairs([experiment], 10**9, processes=2)
"""
    )
    done = subprocess.run([sys.executable, str(script)], check=False, stdout=subprocess.PIPE, timeout=120)
    assert done.returncode == -9


def test_a_report_is_a_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    report = run_audit(40, only="paper, noisy counts, d = 2, ε = 4", processes=1, seed=0, show=True)
    report = AuditReport(report.version, report.sampled, run_audit(0, only="paper, ledger, d = 1").exact)
    found = json.loads(report.to_json())
    assert found["passed"]
    assert found["confidence"] == 0.999
    assert [one["mechanism"] for one in found["sampled"]] == ["paper"]
    assert len(found["exact"]) == 3
    assert found["sampled"][0]["lower"] <= found["sampled"][0]["claimed"]
    assert found["sampled"][0]["event"]
    assert "paper, noisy counts, d = 2" in str(report)
    assert "99.9" in str(report)
    assert "sampled: 1/2 paper" in capsys.readouterr().err


@pytest.mark.parametrize("mechanism", registry.online())
def test_a_run_that_has_measured_nothing_yet_gives_a_bound_of_zero(mechanism: str) -> None:
    experiment = Experiment("short", mechanism, 1.0, kind_of_pair("corner", heap(1, 2), 0), (1,), noisy_counts=True)
    (found,) = audit_pairs([experiment], 40, processes=1, seed=0)
    assert found.lower == 0
    assert not found.alarm


def test_a_refuted_claim_is_an_alarm() -> None:
    exact = ExactFinding("check", 1.0, 1.5, "computed")
    report = AuditReport("0", (), (exact,))
    assert not report.passed
    assert report.alarms == ["check"]
    assert "ALARM: check" in str(report)
    assert AuditReport("0", (), (ExactFinding("check", 1.0, None, "why"),)).alarms == ["check"]


def test_wrong_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="mechanism must be one of"):
        Experiment("x", "magic", 1.0, COUNTS.pair)
    with pytest.raises(ValueError, match="times must rise"):
        Experiment("x", "cascade", 1.0, kind_of_pair("corner", heap(4, 2), 0), (3, 2))
    with pytest.raises(ValueError, match="differ in exactly one place"):
        Pair(((0.0,), (1.0,)), ((1.0,), (0.0,)))
    with pytest.raises(ValueError, match="too few"):
        judge(COUNTS, [COUNTS.columns(side, 4, 0) for side in (0, 1)])


@pytest.mark.parametrize("wrong", [{"only": "nosuchthing"}, {"runs": 3}, {"runs": -5}])
def test_an_audit_of_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"nothing is called|runs must be"):
        run_audit(**wrong)
