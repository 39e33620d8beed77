"""How the text of a whole file is written, said once for all columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from headwater.public.categorical import Category
from headwater.public.column import Column
from headwater.public.columns import COLUMN_KINDS
from headwater.public.errors import SchemaError

TEXT_KEYS = ("null_values", "decimal", "thousands")
"""What a schema file may say for all columns that do not say it themselves."""


def written(shared: Mapping[str, Any], columns: Mapping[str, Column]) -> dict[str, Column]:
    """Columns with what is shared by all of them, where they declare nothing of it.

    A category keeps the values it lists: a country may be called NA.

    What is ``shared`` are some of `TEXT_KEYS`, and ``formats`` of some columns by name.

    Examples
    --------
    >>> written({"null_values": ["NA", "?"]}, {"land": Category("NA", "BW")})
    {'land': Category('NA', 'BW', null_values=('?',))}
    """
    if not shared:
        return dict(columns)
    formats = shared.get("formats", {})
    for name in formats:
        if name not in columns or not hasattr(columns[name], "format"):
            raise SchemaError(
                "a format for what is no column of dates or times", "give one such as day=%d.%m.%Y", column=name
            )
    given = {name: {"format": formats[name]} if name in formats else {} for name in columns}
    return {name: _written({**shared, **given[name]}, column) for name, column in columns.items()}


def usual(columns: Mapping[str, Column]) -> dict[str, Column]:
    """The same columns for text that Headwater has written: whatever is declared about how other files are written."""
    keys = (*TEXT_KEYS, "format", "unit")
    found = {}
    for name, column in columns.items():
        declared = {key: value for key, value in column.to_dict().items() if key not in keys}
        found[name] = COLUMN_KINDS[declared.pop("kind")].from_dict(declared)
    return found


def with_shared(kind: type[Column], declared: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """What a column declares, with what is shared and it neither says itself nor contradicts.

    Examples
    --------
    >>> with_shared(COLUMN_KINDS["number"], {"thousands": "."}, {"decimal": ",", "thousands": " "})
    {'decimal': ',', 'thousands': '.'}
    >>> with_shared(COLUMN_KINDS["number"], {"decimal": "."}, {"decimal": ",", "thousands": "."})
    {'decimal': '.'}
    """
    known = {item.name for item in fields(kind)}
    added = {key: value for key, value in shared.items() if key in known and key not in declared}
    for key, other in (("decimal", "thousands"), ("thousands", "decimal")):
        if key in added and added[key] == declared.get(other):
            del added[key]
    if kind is Category and isinstance(added.get("null_values"), list | tuple):
        listed = declared.get("values")
        values = {str(value).strip() for value in listed} if isinstance(listed, list | tuple) else set()
        added["null_values"] = [text for text in added["null_values"] if str(text).strip() not in values]
    return added | dict(declared)


def _written(shared: Mapping[str, Any], column: Column) -> Column:
    declared = column.to_dict()
    kind = COLUMN_KINDS[declared.pop("kind")]
    merged = with_shared(kind, declared, shared)
    return column if merged == declared else kind.from_dict(merged)
