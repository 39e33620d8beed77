"""Which mechanisms there are. A mechanism is a folder and one line here.

The folder's ``measure`` module has `MECHANISM`, a class as `headwater.mechanisms.protocol.Mechanism` describes it; its
``model`` module has `MODEL`, a class as `headwater.mechanisms.protocol.Model` describes it. They are imported when they
are asked for, and apart: what holds a model never imports what has read records.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from headwater.table.unit_cube import UnitCube

if TYPE_CHECKING:
    from headwater.mechanisms.protocol import AnySchema, ErrorModel, Mechanism, Model

FOLDERS = {
    "cascade": "headwater.mechanisms.cascade",
    "marginals": "headwater.mechanisms.marginals",
    "paper": "headwater.mechanisms.paper",
    "pmm": "headwater.mechanisms.pmm",
}
"""The package of each mechanism, by the name of the mechanism."""

AUTO = "auto"
"""Not a mechanism: stands for the one that `choose` names."""

WIDE = 4
"""From so many columns on, marginals are more accurate than cells (docs/benchmarks/tables.md)."""


def choose(schema: AnySchema) -> str:
    """The mechanism that is likely to be the most accurate, by the schema alone."""
    return "marginals" if _is_wide(schema) and "marginals" in FOLDERS else "cascade"


def resolved(name: str, schema: AnySchema) -> str:
    """The mechanism that a run is to use: what `choose` says for `AUTO`. An error offers those that there are."""
    if name != AUTO and name not in names():
        raise ValueError(f"mechanism must be one of {', '.join((AUTO, *online()))}, not {name!r}")
    return choose(schema) if name == AUTO else name


def reason(name: str, schema: AnySchema) -> str:
    """Why this mechanism, in words."""
    if name != choose(schema):
        return f"as asked; mechanism='auto' would have chosen {choose(schema)}"
    if _is_wide(schema):
        return f"{schema.dimension} columns: from {WIDE} on, marginals of columns and of pairs are the more accurate"
    what = (
        "points of a cube"
        if isinstance(schema, UnitCube)
        else f"{schema.dimension} column{'s' * (schema.dimension > 1)}"
    )
    return f"{what}: below {WIDE} columns, and in a cube, cells of all columns together are more accurate"


def _is_wide(schema: AnySchema) -> bool:
    return not isinstance(schema, UnitCube) and schema.dimension >= WIDE


def register(name: str, folder: str) -> None:
    """Add a mechanism of one's own.

    Parameters
    ----------
    name
        What ``mechanism=`` and cards call it.
    folder
        The importable package that has its ``measure`` and ``model`` modules.
    """
    if FOLDERS.setdefault(name, folder) != folder:
        raise ValueError(f"there is a mechanism called {name!r} already")


def names() -> tuple[str, ...]:
    """The names of all mechanisms."""
    return tuple(FOLDERS)


def online() -> tuple[str, ...]:
    """The names of the mechanisms that take records one after another."""
    return tuple(name for name in FOLDERS if mechanism(name).online)


def mechanism(name: str) -> type[Mechanism]:
    """The class that measures. It reads records: nothing that publishes may call this."""
    found: type[Mechanism] = import_module(f"{folder_of(name)}.measure").MECHANISM
    return found


def model(name: str) -> type[Model]:
    """The class of what a release holds."""
    found: type[Model] = import_module(f"{folder_of(name)}.model").MODEL
    return found


def error_model(name: str) -> ErrorModel | None:
    """What is known of its errors before there are records, if its folder has a module ``error_model``."""
    module = f"{folder_of(name)}.error_model"
    if find_spec(module) is None:
        return None
    found: ErrorModel = import_module(module).ERROR_MODEL
    return found


def folder_of(name: str) -> str:
    """The importable package that has a mechanism's modules."""
    if name not in names():
        raise ValueError(f"mechanism must be one of {', '.join(FOLDERS)}, not {name!r}")
    return FOLDERS[name]
