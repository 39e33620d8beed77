"""Sampling, resuming and the report; what the mechanisms themselves pass is in `test_sound.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater.audit import (
    AuditReport,
    ExactFinding,
    Experiment,
    audit_pairs,
    judge,
    run_audit,
    run_experiments,
    sparse_loss,
)
from headwater.audit import audit as audit_module
from headwater.audit.runner import CHUNK, Checkpoint
from headwater.audit.streams import Pair, heap, increments, kind_of_pair
from headwater.public import protocol as registry
from headwater.secret.counters import SparseCounter

LIMIT = 3  # chunks until somebody interrupts
COUNTER = Experiment("counter", "hybrid counter", 2.0, increments([0, 0, 0], 1))
DRAWS = Experiment("draws", "noise", 2.0, Pair(((0.0,),), ((1.0,),)))


def test_a_bound_comes_near_the_truth_and_not_beyond() -> None:
    """One draw is exactly ε-private; the bound is above ε with a probability of at most 0.1%, and the seed is fixed."""
    (found,) = audit_pairs([DRAWS], 0, processes=1, seed=1)
    assert 1.85 < found.lower <= 2.0
    assert found.certain <= found.lower <= found.estimate
    assert not found.alarm


def test_many_experiments_make_an_alarm_harder() -> None:
    columns = [DRAWS.columns(side, 4000, seed=5) for side in (0, 1)]
    alone, among = judge(DRAWS, columns), judge(DRAWS, columns, experiments=1000)
    assert alone.lower == among.lower == alone.certain > among.certain


def test_runs_do_not_depend_on_how_many_processes_there_are() -> None:
    def columns(processes: int) -> object:
        ((_, found),) = run_experiments([COUNTER], CHUNK + 10, processes=processes, seed=3)
        return found

    assert columns(1) == columns(2)


def test_runs_without_a_seed_are_never_the_same() -> None:
    one, other = (next(run_experiments([COUNTER], 20, processes=1))[1] for _ in range(2))
    assert one != other


def test_an_interrupted_audit_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was finished is not run again, also when the last line was cut short."""
    path, ran = tmp_path / "audit.jsonl", list[int]()
    real = Experiment.columns

    def counted(self: Experiment, side: int, runs: int, seed: int | None = None) -> dict[str, list[object]]:
        if len(ran) == LIMIT:
            raise KeyboardInterrupt
        ran.append(runs)
        return real(self, side, runs, seed)  # type: ignore[return-value]

    with monkeypatch.context() as patch:
        patch.setattr(Experiment, "columns", counted)
        with pytest.raises(KeyboardInterrupt):
            list(run_experiments([COUNTER], 4 * CHUNK, processes=1, checkpoint=path, seed=0))
    assert len(path.read_text().splitlines()) == 3
    with path.open("a") as file:
        file.write('{"key": "cut sho')
    ran.clear()
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 100)
    with monkeypatch.context() as patch:
        patch.setattr(Experiment, "columns", counted)
        resumed = list(run_experiments([COUNTER], 4 * CHUNK, processes=1, checkpoint=path, seed=0))
        assert len(ran) == 8 - 3
        ran.clear()
        again = list(run_experiments([COUNTER], 4 * CHUNK, processes=1, checkpoint=path, seed=0))
        assert not ran
    fresh = list(run_experiments([COUNTER], 4 * CHUNK, processes=1, seed=0))
    assert resumed == again == fresh


def test_a_killed_audit_leaves_a_file_to_go_on_from(tmp_path: Path) -> None:
    """The process is killed after its first finished chunk, without a chance to tidy up."""
    path = tmp_path / "audit.jsonl"
    script = f"""
import os, signal
from headwater.audit import Experiment, run_experiments
from headwater.audit.streams import increments
pair = increments([0, 0, 0], 1)
experiment = Experiment("counter", "hybrid counter", 2.0, pair)
stop = lambda done, total, name: done < 2 or os.kill(os.getpid(), signal.SIGKILL)
list(run_experiments([experiment], {2 * CHUNK}, processes=1, checkpoint={str(path)!r}, seed=0, progress=stop))
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert len(path.read_text().splitlines()) == 2
    resumed = list(run_experiments([COUNTER], 2 * CHUNK, processes=1, checkpoint=path, seed=0))
    assert resumed == list(run_experiments([COUNTER], 2 * CHUNK, processes=1, seed=0))


def test_a_killed_audit_leaves_no_process_behind(tmp_path: Path) -> None:
    """Workers inherit standard output: it ends, and the test with it, only when the last of them is gone."""
    script = tmp_path / "killed.py"
    script.write_text(
        """
import os, signal, sys
from headwater.audit import Experiment, run_experiments
from headwater.audit.streams import increments

if __name__ == "__main__":
    experiment = Experiment("counter", "hybrid counter", 2.0, increments([0, 0, 0], 1))
    stop = lambda done, total, name: os.kill(os.getpid(), signal.SIGKILL)
    list(run_experiments([experiment], 5000, processes=2, seed=0, progress=stop))
"""
    )
    done = subprocess.run([sys.executable, str(script)], check=False, stdout=subprocess.PIPE, timeout=120)
    assert done.returncode == -9


def test_other_runs_are_not_taken_from_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    list(run_experiments([COUNTER], 40, processes=1, checkpoint=path, seed=0))
    ((_, kept),) = run_experiments([COUNTER], 40, processes=1, checkpoint=path, seed=1)
    ((_, fresh),) = run_experiments([COUNTER], 40, processes=1, seed=1)
    assert kept == fresh


def test_a_report_is_a_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    report = run_audit("quick", runs=40, only="hybrid counter", processes=1, seed=0, show=True)
    found = json.loads(report.to_json())
    assert found["passed"]
    assert found["confidence"] == 0.999
    assert [one["mechanism"] for one in found["sampled"]] == ["hybrid counter"]
    assert len(found["exact"]) == 4
    assert found["sampled"][0]["lower"] <= found["sampled"][0]["claimed"]
    assert found["sampled"][0]["event"]
    for text in (str(report), report.markdown()):
        assert "hybrid counter, ε = 2" in text
        assert "99.9" in text
    assert "exact: hybrid counter" in capsys.readouterr().err


def test_random_pairs_are_screened_and_the_most_telling_ones_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "SCREEN", 24)
    monkeypatch.setattr(audit_module, "KEEP", 2)
    report = run_audit("quick", runs=16, only="random pair", search=3, exact=False, processes=1, seed=0)
    assert report.screened == 3
    assert [one.runs for one in report.sampled] == [16, 16]


@pytest.mark.parametrize("mechanism", registry.online())
def test_a_run_that_has_measured_nothing_yet_gives_a_bound_of_zero(mechanism: str) -> None:
    experiment = Experiment("short", mechanism, 1.0, kind_of_pair("corner", heap(1, 2), 0), (1,), noisy_counts=True)
    (found,) = audit_pairs([experiment], 40, processes=1, seed=0)
    assert found.lower == 0
    assert not found.alarm


def test_a_refuted_claim_is_an_alarm() -> None:
    exact = ExactFinding("check", 1.0, 1.5, "computed")
    report = AuditReport("0", 0.999, (), (exact,))
    assert not report.passed
    assert report.alarms == ["check"]
    assert "ALARM: check" in str(report)
    assert AuditReport("0", 0.999, (), (ExactFinding("check", 1.0, None, "why"),)).alarms == ["check"]


def test_wrong_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="size must be one of quick, standard, full"):
        run_audit("huge")
    with pytest.raises(ValueError, match="mechanism must be one of"):
        Experiment("x", "magic", 1.0, COUNTER.pair)
    with pytest.raises(ValueError, match="times must rise"):
        Experiment("x", "cascade", 1.0, kind_of_pair("corner", heap(4, 2), 0), (3, 2))
    with pytest.raises(ValueError, match="differ in exactly one place"):
        Pair(((0.0,), (1.0,)), ((1.0,), (0.0,)))
    with pytest.raises(ValueError, match="too few"):
        judge(COUNTER, [COUNTER.columns(side, 4, 0) for side in (0, 1)])


def test_a_sparse_counter_that_gives_its_sub_counter_too_much_is_found_out() -> None:
    class Generous(SparseCounter):
        def __init__(self, horizon: int, *, epsilon: float, constant: float, sub: Any, noise: Any) -> None:  # noqa: ANN401
            def more(*, epsilon: float, noise: Any) -> Any:  # noqa: ANN401
                return sub(epsilon=10 * epsilon, noise=noise)

            super().__init__(horizon, epsilon=epsilon, constant=constant, sub=more, noise=noise)

    assert sparse_loss(3, 4.0, 0.5)[1] <= 4.0
    assert sparse_loss(3, 4.0, 0.5, Generous)[1] > 4.0


@pytest.mark.parametrize("wrong", [{"only": "nosuchthing"}, {"runs": 0}, {"runs": -5}, {"search": -1}])
def test_an_audit_of_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"nothing is called|runs must be|search must"):
        run_audit("quick", **wrong)


def test_a_checkpoint_that_holds_something_else_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text('{"key": "a", "data": 5}\n{"key": "b", "data": "eJwDAAAAAAE="}\n')
    assert Checkpoint(path).get("a") is None
    assert Checkpoint(path).get("b") is None
