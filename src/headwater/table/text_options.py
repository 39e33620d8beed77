"""How the text of a whole file is written, said once for all columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from headwater.table.columns import COLUMN_KINDS, Category, Column
from headwater.table.errors import SchemaError

TEXT_KEYS = ("null_values", "decimal", "thousands")
"""What a schema file may say for all columns that do not say it themselves."""


def written(shared: Mapping[str, Any], columns: Mapping[str, Column]) -> dict[str, Column]:
    """Columns with what is shared by all of them, where they declare nothing of it.

    A category keeps the values it lists: a country may be called NA.

    Parameters
    ----------
    shared
        Some of `TEXT_KEYS`; and ``formats``, of some columns by name.
    columns
        By name.

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
    keys = (*TEXT_KEYS, "format")
    found = {}
    for name, column in columns.items():
        declared = {key: value for key, value in column.to_dict().items() if key not in keys}
        found[name] = COLUMN_KINDS[declared.pop("kind")].from_dict(declared)
    return found


def _written(shared: Mapping[str, Any], column: Column) -> Column:
    known = {item.name: item.default for item in fields(column)}
    added = {key: value for key, value in shared.items() if key in known and getattr(column, key) == known[key]}
    if isinstance(column, Category) and isinstance(added.get("null_values"), list | tuple):
        values = {str(value).strip() for value in column.values}
        added["null_values"] = [text for text in added["null_values"] if str(text).strip() not in values]
    if not added:
        return column
    declared = column.to_dict() | added
    return COLUMN_KINDS[declared.pop("kind")].from_dict(declared)
