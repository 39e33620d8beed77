"""How a command ends: what is said when something is wrong, and the exit code that goes with it."""

from __future__ import annotations

import functools
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import NoReturn, ParamSpec, TypeVar

import typer
from rich.console import Console

from headwater.files import FileRefusedError
from headwater.noise import SeededRunWarning
from headwater.store import StoreError
from headwater.table.errors import SchemaError, TableError

P = ParamSpec("P")
T = TypeVar("T")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


class Exit(IntEnum):
    """Exit codes. They are documented, and keep their meaning."""

    DONE = 0
    """Everything that was asked for was done."""
    BUG = 1
    """Something went wrong that Headwater did not expect: please report it."""
    USAGE = 2
    """The command itself cannot be understood: an option is missing or makes no sense."""
    INPUT = 3
    """A record or a file of records is wrong. Nothing of its batch was counted."""
    SCHEMA = 4
    """The schema is wrong."""
    STATE = 5
    """The state cannot be used: in use, damaged, a copy, of another run; or there is no room for it."""
    FILES = 6
    """A file or folder cannot be read or written."""
    MISSING = 7
    """A package that this command needs is not installed."""
    LEAK = 8
    """An audit found more than the claimed ε."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C or by a request to end."""


def told(command: Callable[P, T]) -> Callable[P, T]:
    """Turn every documented error into one message for people and an exit code for programs."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with warnings.catch_warnings():
            warnings.simplefilter("default", SeededRunWarning)
            warnings.showwarning = _say_warning  # type: ignore[assignment]  # where in the code helps nobody here
            try:
                return command(*args, **kwargs)
            except TableError as error:
                _end(error, Exit.INPUT)
            except SchemaError as error:
                _end(error, Exit.SCHEMA)
            except (StoreError, FileRefusedError) as error:
                _end(error, Exit.STATE)
            except OSError as error:
                where = f"{error.filename}: " if error.filename else ""
                _end(f"{where}{error.strerror or error}", Exit.FILES)
            except ImportError as error:
                _end(error, Exit.MISSING)
            except ValueError as error:
                _end(error, Exit.USAGE)
            except KeyboardInterrupt:
                _end("stopped", Exit.INTERRUPTED)
            except (typer.Exit, typer.Abort, typer.BadParameter):
                raise
            except Exception as error:
                if os.environ.get("HEADWATER_DEBUG"):
                    raise
                _end(_unexpected(error), Exit.BUG)

    return wrapped


def _end(why: object, code: Exit) -> NoReturn:
    err.print(f"[bold red]error:[/] {_plain(str(why))}", soft_wrap=True)
    raise typer.Exit(int(code))


def _unexpected(error: Exception) -> str:
    """Where it happened, but not what the error says: that may be somebody's record."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}, line {last.lineno}"
    return (
        f"{type(error).__name__} in {where}. This is a bug of Headwater: please report it. HEADWATER_DEBUG=1 shows "
        "everything, perhaps records too; nothing that was published is harmed"
    )


def _plain(text: str) -> str:
    """Square brackets as they are: column names may hold any."""
    return text.replace("[", r"\[")


def _say_warning(message: Warning | str, *_: object) -> None:
    err.print(f"[yellow]warning:[/] {_plain(str(message))}", soft_wrap=True)


def say(text: str, style: str | None = None) -> None:
    """One line for people, never broken: lines are copied, and read by programs."""
    out.print(_plain(text), style=style, soft_wrap=True)


def interactive() -> bool:
    """Whether somebody is looking."""
    return sys.stdout.isatty()
