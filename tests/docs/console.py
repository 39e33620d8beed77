"""The console examples of a page: what a reader would type, in order, and what the page says comes out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class SavedFile:
    """A block with a title: the reader is asked to save it under that name."""

    name: str
    text: str


@dataclass
class Command:
    """One line behind a prompt, and the lines that the page shows below it."""

    line: str
    shown: list[str] = field(default_factory=list)


def steps_of(page: str) -> list[SavedFile | Command]:
    """Files to save and commands to give, in the order of the page."""
    steps: list[SavedFile | Command] = []
    for fence in _FENCE.finditer(page):
        body = re.sub(rf"^{fence['indent']}", "", fence["body"], flags=re.MULTILINE)
        if title := _TITLE.search(fence["info"]):
            steps.append(SavedFile(title[1], body))
        elif fence["info"].strip() == "console":
            for line in body.splitlines():
                if line.startswith("$ "):
                    steps.append(Command(line[2:]))
                elif line.strip():
                    last = steps[-1] if steps else None
                    assert isinstance(last, Command), f"output before any command: {line}"
                    last.shown.append(line)
    return steps


def follow(steps: list[SavedFile | Command], folder: Path) -> None:
    """Do what the page says, and fail where something else happens than it says.

    A command must succeed, unless the next one is ``echo $?``: then it must end with the code shown. Every line shown
    must come out; numbers in it may differ, since noise does.
    """
    environment = {**os.environ, "COLUMNS": "120", "LINES": "50", "TERM": "dumb", "PYTHONWARNINGS": ""}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment.pop("SOURCE_DATE_EPOCH", None)
    for number, step in enumerate(steps):
        if isinstance(step, SavedFile):
            (folder / step.name).write_text(step.text, encoding="utf-8")
            continue
        if step.line == "echo $?":
            continue
        done = subprocess.run(
            ["bash", "-c", step.line],  # noqa: S607
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        said = done.stdout + done.stderr
        expected = _code_after(steps[number + 1 :])
        assert done.returncode == expected, f"$ {step.line}\nended with {done.returncode}, not {expected}\n{said}"
        lines = [_blur(line) for line in said.splitlines()]
        for shown in step.shown:
            assert any(_blur(shown) in line for line in lines), f"$ {step.line}\ndid not say: {shown}\nbut:\n{said}"


def _code_after(rest: list[SavedFile | Command]) -> int:
    following = rest[0] if rest else None
    if isinstance(following, Command) and following.line == "echo $?":
        return int(following.shown[0])
    return 0


def _blur(line: str) -> str:
    """A line without what may differ: numbers, and how much space stands between words."""
    return re.sub(r"\s+", " ", re.sub(r"\d[\d,.]*", "0", line)).strip()
