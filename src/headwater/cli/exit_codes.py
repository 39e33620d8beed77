"""Exit codes, and how errors are reported: one message for people, one code for programs."""

from __future__ import annotations

import functools
import os
import traceback
import warnings
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import ParamSpec, TypeVar

import typer

import headwater
from headwater.cli.console import complain
from headwater.public.budget import DeltaWarning, EpsilonWarning
from headwater.public.errors import SchemaError, TableError, UnreadableFileError
from headwater.public.files import FileRefusedError
from headwater.run.lock import StoreError
from headwater.secret.noise import SeededRunWarning

P = ParamSpec("P")
T = TypeVar("T")


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
    """Stopped by Ctrl-C or by a request to end. With --follow, which ends in no other way, that is 0."""


_CODES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], Exit], ...] = (
    (UnreadableFileError, Exit.FILES),
    (TableError, Exit.INPUT),
    (SchemaError, Exit.SCHEMA),
    ((StoreError, FileRefusedError), Exit.STATE),
    (OSError, Exit.FILES),
    (ImportError, Exit.MISSING),
    (KeyboardInterrupt, Exit.INTERRUPTED),
)
"""Which error ends a command with which code: the first that fits."""


def reports_errors(command: Callable[P, T]) -> Callable[P, T]:
    """Turn every documented error of a command into a message and an exit code."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with warnings.catch_warnings():
            for warned in (SeededRunWarning, EpsilonWarning, DeltaWarning):
                warnings.simplefilter("default", warned)
            # Where in the code helps nobody here.
            warnings.showwarning = lambda message, *_: complain(str(message), "yellow", "warning:")
            try:
                return command(*args, **kwargs)
            except (typer.Exit, typer.Abort, typer.BadParameter):
                raise
            except (Exception, KeyboardInterrupt) as error:
                text, code = _explained(error)
                if code is Exit.BUG and os.environ.get("HEADWATER_DEBUG"):
                    raise
                complain(text, "bold red", "error:")
                raise typer.Exit(int(code)) from None

    return wrapped


def _explained(error: BaseException) -> tuple[str, Exit]:
    """What to say of an error, and the exit code. Nothing is said that may hold somebody's record."""
    code = next((code for kinds, code in _CODES if isinstance(error, kinds)), Exit.BUG)
    if isinstance(error, KeyboardInterrupt):
        return "stopped", code
    if isinstance(error, OSError) and code is Exit.FILES and not isinstance(error, UnreadableFileError):
        return (f"{error.filename}: " if error.filename else "") + (error.strerror or str(error)), code
    if code is Exit.BUG and isinstance(error, ValueError) and _is_ours(error):
        return str(error), Exit.USAGE
    if code is not Exit.BUG:
        return str(error), code
    last = traceback.extract_tb(error.__traceback__)[-1]  # where it happened, without what it says
    return (
        f"{type(error).__name__} in {Path(last.filename).name}, line {last.lineno}. This is a bug of Headwater: please "
        "report it. HEADWATER_DEBUG=1 shows everything, perhaps records too; nothing that was published is harmed"
    ), code


def _is_ours(error: ValueError) -> bool:
    """Whether this package has written the text of an error. Libraries and Python put values into theirs."""
    if type(error) is not ValueError:
        return type(error).__module__.partition(".")[0] == "headwater"
    last = traceback.extract_tb(error.__traceback__)[-1]
    within = Path(last.filename).is_relative_to(Path(headwater.__file__).parent)
    return within and (last.line or "").startswith("raise ")
