"""The kinds of columns, by name."""

from __future__ import annotations

from headwater.public.categorical import Boolean, Category
from headwater.public.column import Column
from headwater.public.numeric import Integer, Number
from headwater.public.time_of_day import TimeOfDay
from headwater.public.times import Datetime

__all__ = ["COLUMN_KINDS", "Boolean", "Category", "Column", "Datetime", "Integer", "Number", "TimeOfDay"]

COLUMN_KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (Number, Integer, Category, Boolean, Datetime, TimeOfDay)
}
"""Kinds of columns by their names in schema files."""
