"""Every parameter of every public name is described in a Parameters section, as numpydoc has it."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")


def shown() -> list[str]:
    """The full names of everything public: of the package, and of what the page of the API shows besides."""
    listed = re.findall(r"^::: (\S+)", PAGE, flags=re.MULTILINE)
    return sorted({*listed, *(f"headwater.{name}" for name in hw.__all__ if name != "__version__")})


def resolve(name: str) -> Any:  # noqa: ANN401 - a class or a function
    home, _, last = name.rpartition(".")
    return getattr(importlib.import_module(home), last)


def chosen(name: str) -> list[str] | None:
    """The methods of a class that the page shows, if it says which: others are not for users."""
    found = re.search(rf"^::: {re.escape(name)}\n    options:\s*{{?members: (\[.*\]|false)", PAGE, re.M)
    return None if found is None else re.findall(r"\w+", found[1].replace("false", ""))


def members(thing: Any, name: str) -> Iterator[tuple[str, Callable[..., Any], str]]:  # noqa: ANN401 - as above
    """Functions with parameters, and the docstrings that describe them: a class has those of its ``__init__``."""
    if not inspect.isclass(thing):
        yield name, thing, inspect.getdoc(thing) or ""
        return
    if inspect.isfunction(thing.__init__) and not getattr(thing, "_is_protocol", False):
        yield name, thing.__init__, inspect.getdoc(thing) or ""
    shown = chosen(name)
    ours = [vars(one) for one in reversed(thing.__mro__) if one.__module__ not in ("builtins", "typing")]
    for key, member in {key: member for one in ours for key, member in one.items()}.items():
        plain = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        if not key.startswith("_") and inspect.isfunction(plain) and (shown is None or key in shown):
            texts = [inspect.getdoc(vars(one)[key]) or "" for one in thing.__mro__ if key in vars(one)]
            yield f"{name}.{key}", plain, "\n\n".join(texts)  # what a base describes counts, if the page shows it


def described(text: str) -> set[str]:
    """The names that a Parameters or an Attributes section describes, by at least a word each.

    A dataclass may describe its fields as attributes, which they are.
    """
    found = set[str]()
    for section in re.findall(r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=^\S[^\n]*\n---|\Z)", text, re.M | re.S):
        for names in re.findall(r"^(\S[^\n:]*?)(?: *:[^\n]*)?\n[ ]+\S", section, re.M):
            found |= {name.strip(" *`") for name in names.split(",")}
    return found


def missing(name: str) -> list[str]:
    found = []
    for where, function, text in members(resolve(name), name):
        parameters = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
        found += [f"{where}: {p}" for p in parameters if not p.startswith("_") and p not in described(text)]
    return found


@pytest.mark.parametrize("name", shown())
def test_every_parameter_is_described(name: str) -> None:
    assert missing(name) == []


def example(a: int, b: int = 0, *rest: int, **more: int) -> None:  # noqa: D417 - on purpose
    """Do nothing.

    Parameters
    ----------
    a, b : int
        Two numbers.
    **more
        Others.

    Returns
    -------
    rest
        Not here.
    """


def test_what_is_not_described_is_found() -> None:
    assert missing(f"{__name__}.example") == [f"{__name__}.example: rest"]
    assert described("Parameters\n----------\na\n\nb\n    Words.\n") == {"b"}
