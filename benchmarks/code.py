"""Which code a number depends on: a fingerprint of every module that ran when it was made.

    python -m benchmarks.code MODULE MECHANISM

prints that of ``MODULE.sample(MECHANISM)``. Nothing is listed by hand, so a module that is moved, split or renamed
stays in the fingerprint; it is taken in a process of its own, since what a process remembers it does not run again.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from types import FrameType

PACKAGES, ROOT = ("headwater", "benchmarks"), Path(__file__).parents[1]


def modules_run(work: Callable[[], object]) -> set[str]:
    """The modules of the package and of its benchmarks in which a function is called while something is done."""
    found = set[str]()

    def called(frame: FrameType, event: str, argument: object) -> None:
        name = str(frame.f_globals.get("__name__"))
        if event == "call" and name.partition(".")[0] in PACKAGES:
            found.add(name)

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    if not found:
        raise ValueError(f"nothing of {' or '.join(PACKAGES)} was run: the fingerprint would not depend on it")
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
def fingerprint_of(module: str, mechanism: str) -> str:
    """Of the code that makes a mechanism's numbers in a benchmark."""
    command = [sys.executable, "-m", "benchmarks.code", module, mechanism]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main(module: str, mechanism: str) -> None:
    warnings.simplefilter("ignore")
    print(fingerprint(modules_run(partial(importlib.import_module(module).sample, mechanism))))


if __name__ == "__main__":
    main(*sys.argv[1:])
