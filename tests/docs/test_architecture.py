"""The architecture page names functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

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
