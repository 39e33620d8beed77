"""Every public name of before is still there, unless it was meant to go."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import typer.main

from headwater.cli.app import app
from tests.docs.test_parameters import chosen, resolve, shown

BEFORE = Path(__file__).with_name("public_names.txt").read_text(encoding="utf-8").splitlines()
_WRITING = ("--date-format", "--decimal", "--null-value", "--thousands")
GONE = frozenset(
    [f"headwater {command} {option}" for command in ("evaluate", "report", "run") for option in _WRITING]
    + ["headwater run --gone-is-done", "headwater run --same-again"]
)
"""Names of `BEFORE` that went, each for a reason that its commit says."""


def public_names() -> Iterator[str]:
    """Of the package, of what the page of the API shows, and of the command line."""
    for name in shown():
        found, public = resolve(name), chosen(name)
        yield name
        for one in found.__mro__ if inspect.isclass(found) else ():
            ours = {*vars(one), *vars(one).get("__annotations__", ())} if one.__module__.startswith("headwater") else ()
            yield from (f"{name}.{key}" for key in ours if key[0] != "_" and (public is None or key in public))
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]  # a group has them
        yield from (f"headwater {name} {option}" for one in command.params for option in one.opts)


def test_only_names_went_that_were_meant_to_go() -> None:
    assert set(BEFORE) - set(public_names()) == GONE
