"""The architecture page names functions that exist, in the order in which they are called."""

from __future__ import annotations

import ast
import re
import sys
import threading
from pathlib import Path
from types import FrameType

import pytest
from typer.testing import CliRunner

from headwater.cli.app import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py):([\w.]+)`", PAGE)))


def defined(path: Path) -> set[str]:
    """All functions of a module, methods as ``Class.method``."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
    return found


def test_every_walk_is_there() -> None:
    assert len(NAMED) > 25
    assert [walk for walk in ("A record in", "A noisy count out", "A report", "An audit") if walk not in PAGE] == []


@pytest.mark.parametrize(("module", "function"), NAMED)
def test_a_function_that_the_page_names_exists(module: str, function: str) -> None:
    assert function in defined(ROOT / "src" / "headwater" / module)


def test_every_module_and_folder_that_the_page_names_exists() -> None:
    source = ROOT / "src" / "headwater"
    rows = re.findall(r"^\| (`[^|]*) \|", PAGE, flags=re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([\w/.]+(?:\.py|/))`", row)]
    assert len(names) > 15
    assert [name for name in names if not (source / name).exists()] == []


def test_the_mechanism_on_the_page_is_the_one_that_is_checked() -> None:
    (shown,) = re.findall(r"```python\n# measure.py\n(.*?)\n# model.py\n(.*?)```", PAGE, flags=re.DOTALL)
    for module, code in zip(("measure", "model"), shown, strict=True):
        assert (
            (ROOT / "tests" / "audit" / "toy" / f"{module}.py")
            .read_text(encoding="utf-8")
            .endswith(f"\n{code.rstrip()}\n")
        )
    lines = [line for code in shown for line in code.splitlines() if line.strip()]
    assert len(lines) < 36


def test_every_test_that_a_page_or_a_proof_names_exists() -> None:
    pages = [
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "proofs").glob("*.md"),
        ROOT / "SECURITY.md",
        ROOT / "CONTRIBUTING.md",
    ]
    named = {name for page in pages for name in re.findall(r"\b(test_\w+)\b(?!\.py)", page.read_text(encoding="utf-8"))}
    written = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 30
    assert sorted(name for name in named if f"def {name}(" not in written) == []


# --- walks ------------------------------------------------------------------------------------------------

AUDITS = ("cascade, d = 2, ε = 8: the first", "cascade, ledger, d = 2, ε = 1", "paper, d = 2, ε = 4: the last record")
"""Of an exact loss, of a ledger, by sampling."""
SCHEMA = 'headwater = 1\n[columns.x]\nkind = "number"\nlow = 0\nhigh = 1\n'


def hops(walk: str) -> list[tuple[str, str]]:
    """The functions of a walk, as module and name: all of its first paragraph."""
    text = PAGE.split(f"**{walk}**")[1].split("\n\n")[0]
    return re.findall(r"`([\w/]+\.py):([\w.]+)`", text)


def calls(*arguments: str) -> list[tuple[str, str]]:
    """Every function that the page names, each time that a command calls it."""
    found, named, source = list[tuple[str, str]](), set(NAMED), str(ROOT / "src" / "headwater") + "/"

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(source):
            hop = frame.f_code.co_filename.removeprefix(source), frame.f_code.co_qualname
            if hop in named:
                found.append(hop)

    sys.setprofile(look)
    threading.setprofile(look)
    try:
        done = CliRunner().invoke(app, list(arguments))
    finally:
        threading.setprofile(None)
        sys.setprofile(None)
    assert done.exit_code == 0, done.output
    return found


@pytest.mark.slow
def test_walks_go_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but Spark's, which needs a cluster."""
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA)
    Path("in.csv").write_text("x\n" + "".join(f"{number % 97 / 97}\n" for number in range(3000)))
    Path("people.csv").write_text("x,who\n" + "".join(f"{number % 97 / 97},{number % 9}\n" for number in range(300)))
    declared = ("--schema", "schema.toml", "--epsilon", "1")
    run = calls("run", "in.csv", *declared, "--every", "1000")
    people = calls("run", "people.csv", *declared, "--person", "who", "--records-per-person", "5", "--out", "others")
    walks = {
        "A record in": run,
        "A noisy count out": run,
        "Whose record it is": people,
        "A report": calls("report", "releases", "--out", "report.html"),
        "An audit": [hop for only in AUDITS for hop in calls("audit", "--runs", "8", "--only", only)],
    }
    for walk, called in walks.items():
        rest = iter(called)
        assert [hop for hop in hops(walk) if hop not in rest] == [], f"{walk}: not called after those before"


def test_every_name_of_code_that_a_proof_names_exists() -> None:
    """A name with a dot or an underscore, in backticks; mathematics has other letters."""
    written = {
        word
        for folder in ("src", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    }
    named = {
        (page.name, name)
        for page in (ROOT / "proofs").glob("*.md")
        for name in re.findall(r"`([a-zA-Z_]\w*(?:\.\w+)*)(?:\(\))?`", page.read_text(encoding="utf-8"))
        if len(name) > 7 and ("." in name or "_" in name)
    }
    assert len(named) > 200
    assert sorted((page, name) for page, name in named if name.split(".")[-1] not in written) == []
