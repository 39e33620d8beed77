"""The guided fuzzer reaches the code of the package, and keeps what it finds."""

import importlib.util
import json
from pathlib import Path

import pytest

from benchmarks import fuzz, pages


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="no Atheris")
def test_inputs_are_guided_by_the_code_that_they_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    done = fuzz.outcome("publishing interval", 2)
    assert done.inputs > 10
    assert done.edges > 5  # none if the package were imported before it is instrumented
    assert done.findings == []


def test_a_finding_is_kept_and_can_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fuzz, "FOUND", tmp_path)
    fuzz.keep("publishing interval", "publishing-interval", "KeyError in pipeline.py, parse", b"1h")
    path = next(path for path in tmp_path.iterdir() if path.suffix != ".json")
    assert json.loads(path.with_suffix(".json").read_text())["input"] == path.name
    fuzz.again(path)
    assert "nothing is wrong" in capsys.readouterr().out


def test_a_target_that_did_not_run_keeps_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "FOLDER", tmp_path)
    bad = {"target": "a", "what": "KeyError", "input": "x"}
    names = ["a", "b"]
    fuzz.write([fuzz.Outcome("a", 10, 1.0, 5, 2, [bad]), fuzz.Outcome("b", 20, 2.0, 6, 3, [])], names)
    assert "| KeyError | a | x |" in (tmp_path / "fuzz.md").read_text()
    fuzz.write([fuzz.Outcome("a", 11, 1.0, 5, 2, [])], names)
    page = (tmp_path / "fuzz.md").read_text()
    assert "| b | 20 | 0 |" in page
    assert "| **all** | **31** | **0** |" in page
    assert "KeyError" not in page
