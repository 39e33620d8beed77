"""What callers of a synthesizer give, checked."""

from __future__ import annotations

from typing import Any

from headwater.mechanisms.protocol import AnySchema, Mechanism
from headwater.people import Person
from headwater.table.frames import kind_of
from headwater.table.input_schema import InputSchema
from headwater.table.schema import Schema
from headwater.table.unit_cube import UnitCube


def checked_schema(schema: object) -> AnySchema:
    """The schema, or an error if it is none."""
    if not isinstance(schema, Schema | UnitCube):
        raise TypeError(f"schema must be a Schema or unit_cube(d), not {type(schema).__name__}")
    return schema


def checked_person(person: object, schema: AnySchema) -> Person:
    """What is declared about people, or an error if it does not go with the schema."""
    if not isinstance(person, Person):
        raise TypeError(f'person must be such as Person("user_id", records=20), not {type(person).__name__}')
    InputSchema(schema, person.column)  # type: ignore[arg-type]  # or refused
    return person


def options_of(kind: type[Mechanism], given: dict[str, Any]) -> dict[str, Any]:
    """What a mechanism takes by name. A choice that it does not have is refused.

    Any mechanism may be given ``expect``, and those that have no use for it do without.
    """
    found: dict[str, Any] = {name: values[0] for name, values in kind.options.items() if isinstance(values, tuple)}
    for name, value in given.items():
        if value is None:
            continue
        values = kind.options.get(name)
        if name == "expect":
            if whole(name, value) < 1:
                raise ValueError(f"expect must be a number of records from 1 on, not {value}")
            if values is not None:
                found[name] = whole(name, value)
            continue
        if not isinstance(values, tuple):
            raise ValueError(f"{name}= means nothing to mechanism={kind.name!r}; leave it out")
        if value not in values:
            raise ValueError(f"{name} must be one of {', '.join(values)}, not {value!r}")
        found[name] = value
    return found


def window_start(t: int, last: int | None, since: int | None) -> int:
    """How many of the first records a release leaves out."""
    if last is not None and since is not None:
        raise ValueError("give last= or since=, not both")
    if last is not None:
        if whole("last", last) < 1:
            raise ValueError(f"last must be at least 1, not {last}")
        return max(t - last, 0)
    if since is not None and not 0 <= whole("since", since) <= t:
        raise ValueError(f"since must lie between 0 and the number of records so far, {t}, but is {since}")
    return since or 0


def whole(what: str, number: object) -> int:
    """A whole number, or an error that names what it is."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{what} must be a whole number, not {type(number).__name__}")
    return int(number.__index__())


def table_kind(schema: AnySchema, table: object) -> str | None:
    """What kind of table to give back for this one. Points of a cube are always an array."""
    return kind_of(table) if isinstance(schema, Schema) else None
