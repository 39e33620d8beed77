"""Which code a number depends on: a fingerprint of every module of the package that ran when it was made.

    python -m benchmarks.code MECHANISM

prints the fingerprint of a mechanism of the accuracy benchmark. Nothing is listed by hand, so a module that is moved,
split or renamed stays in the fingerprint; it is taken in a process of its own, since what a process remembers it does
not run again.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from types import FrameType

PACKAGE, ROOT = "headwater", Path(__file__).parents[1]


def modules_run(work: Callable[[], object]) -> set[str]:
    """The modules of the package in which a function is called while something is done."""
    found = set[str]()

    def called(frame: FrameType, event: str, argument: object) -> None:
        name = str(frame.f_globals.get("__name__"))
        if event == "call" and name.partition(".")[0] == PACKAGE:
            found.add(name)

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    if not found:
        raise ValueError(f"nothing of {PACKAGE} was run: the fingerprint would not depend on it")
    return found


def fingerprint(modules: Iterable[str]) -> str:
    """Of the source of modules, without comments, docstrings and the modules' own names."""
    parts = []
    for name in modules:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"there is no module {name}: its code cannot be in the fingerprint")
        parts.append(stripped(Path(spec.origin).read_text(encoding="utf-8")))
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:16]


def stripped(source: str) -> str:
    """Source as a syntax tree without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


@cache
def fingerprint_of(mechanism: str) -> str:
    """Of the code that makes a mechanism's numbers in the accuracy benchmark."""
    command = [sys.executable, "-m", "benchmarks.code", mechanism]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main(mechanism: str) -> None:
    from benchmarks.accuracy_cases import BLIND, GRID, Setting, run

    warnings.simplefilter("ignore")
    small = Setting(GRID, "blobs", 2, 4.0, 6_000, (700, 6_000), mechanism, 8)
    ran = set[str]() if mechanism == BLIND else modules_run(partial(run, small, 0))
    print(fingerprint({*ran, "benchmarks.streams", "headwater.evaluation.w1", "headwater.evaluate.grid_flow"}))


if __name__ == "__main__":
    main(*sys.argv[1:])
