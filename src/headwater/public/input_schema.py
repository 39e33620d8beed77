"""The columns that are read: those of the schema, and the one that names the person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.public.categorical import Category
from headwater.public.column import Column
from headwater.public.errors import SchemaError
from headwater.public.schema import Schema


@dataclass(frozen=True)
class InputSchema:
    """What readers of files are given where people have several records. Releases never have the person."""

    schema: Schema
    person: str

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Schema):
            raise SchemaError(
                "people are named by a column, and points of a cube have no columns",
                "declare a schema, such as Schema(x=Number(0, 1), y=Number(0, 1))",
            )
        if self.person in self.schema.names:
            raise SchemaError(
                "the column that names the person is in the schema, so it would be published",
                "take it out of the schema: it is read beside it",
                column=self.person,
            )

    @property
    def columns(self) -> Mapping[str, Column]:
        """The columns by name. That of the person is text of any kind: it is hashed, never encoded."""
        return {**self.schema.columns, self.person: Category(null_values=self.nobody)}

    @property
    def nobody(self) -> list[str]:
        """The texts that mean "missing" in every column of the schema: they name nobody."""
        first, *others = (column.null_values for column in self.schema.columns.values())
        return [text for text in first if all(text in texts for texts in others)]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return *self.schema.names, self.person

    @property
    def dimension(self) -> int:
        """How many columns there are."""
        return len(self.names)

    @property
    def bad_rows(self) -> str | None:
        """What the schema declares about rows that are no records."""
        return self.schema.bad_rows

    @property
    def reading(self) -> Mapping[str, Any]:
        """What the schema declares about files."""
        return self.schema.reading
