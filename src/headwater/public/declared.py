"""What a schema file declares: the version of its format, and columns by kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.public.bad_rows import POLICIES
from headwater.public.column import Column
from headwater.public.columns import COLUMN_KINDS
from headwater.public.errors import SchemaError, listed, quoted
from headwater.public.file_options import FILE_KEYS, declared_options
from headwater.public.schema_files import FORMAT
from headwater.public.text_options import TEXT_KEYS, with_shared


def declared_columns(declared: Mapping[str, Any]) -> tuple[dict[str, Column], str | None, dict[str, Any]]:
    """The columns of a schema file, its policy for bad rows, and what it says about files."""
    check_format(declared, {"headwater", "columns", "bad_rows", *TEXT_KEYS, *FILE_KEYS})
    policy = declared.get("bad_rows")
    if policy is not None and policy not in POLICIES:
        raise SchemaError("bad_rows is none of the policies", f"write one of {', '.join(POLICIES)}")
    columns = declared.get("columns")
    if not isinstance(columns, Mapping) or not columns:
        raise SchemaError("there are no columns", 'write a table for each, such as [columns.age] with kind = "integer"')
    shared = {key: declared[key] for key in TEXT_KEYS if key in declared}
    found = {name: _column(name, table, shared) for name, table in columns.items()}
    return found, policy, declared_options(declared)


def check_format(declared: object, known: set[str]) -> None:
    """Refuse what is no schema of a format that is known, or has other keys than these."""
    if not isinstance(declared, Mapping):
        raise SchemaError("a schema must be a table of keys and values", "write headwater = 1 and the columns")
    version = declared.get("headwater")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise SchemaError("the version of the format is missing", f"write headwater = {FORMAT} at the top")
    if version > FORMAT:
        raise SchemaError(
            f"the schema is written in format {version}, but this version of Headwater reads formats up to {FORMAT}",
            "use a newer version of Headwater",
        )
    unknown = [str(name) for name in declared if name not in known]
    if unknown:
        raise SchemaError(f"unknown key {listed(unknown)}", f"known keys are {', '.join(sorted(known))}")


def _column(name: str, declared: object, shared: Mapping[str, Any]) -> Column:
    try:
        if not isinstance(declared, Mapping):
            raise SchemaError(
                "a column must be a table", f'write [columns.{quoted(name)}] and kind = "number" below it'
            )
        rest = dict(declared)
        kind = rest.pop("kind", None)
        if not isinstance(kind, str) or kind not in COLUMN_KINDS:
            what = "kind is missing" if kind is None else f"unknown kind {quoted(str(kind))}"
            raise SchemaError(what, f"known kinds are {', '.join(COLUMN_KINDS)}")
        column = COLUMN_KINDS[kind].from_dict(with_shared(COLUMN_KINDS[kind], rest, shared))
    except SchemaError as error:
        raise error.at(column=name) from None
    return column


def also_open(columns: Mapping[str, Column]) -> str:
    """What other columns leave open, in words that go on a sentence."""
    needing = dict[str, list[str]]()
    for name, column in columns.items():
        if found := " and ".join(getattr(column, "open", ())):
            needing.setdefault(found, []).append(name)
    return "".join(f"; {what} of {listed(names)} must be declared too" for what, names in needing.items())
