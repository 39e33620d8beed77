"""What `headwater.evaluate` takes: tables, files, releases and their folders. NOT PRIVATE.

Values are compared as they are, not rounded to the step that the schema declares; a value beyond a bound is at the
bound, as in every release, and how many were is tallied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headwater.evaluation.axes import Floats, column_axes
from headwater.evaluation.bars import Bars
from headwater.evaluation.yardstick import Table, table_of
from headwater.public.errors import TableError
from headwater.public.folder import folders, read_card
from headwater.public.partition import Flags, Points
from headwater.public.protocol import AnySchema
from headwater.public.release import Release
from headwater.public.schema import Schema, schema_from_dict
from headwater.public.tables import kind_of
from headwater.public.tally import Tally, policy_of
from headwater.secret.read.source import open_source

FEW_KNOWN = 0.9
"""If fewer of the real rows than this are records, they are not read as the run did."""


@dataclass(frozen=True)
class Rows:
    """Rows in order of arrival, with a column for each of the schema; invalid ones keep their places."""

    values: Floats  # numbers in parts of their range, places in the list of categories; NaN is missing
    known: Flags  # which rows are records
    tally: Tally = field(default_factory=Tally)

    @classmethod
    def at(cls, points: Points, schema: AnySchema, known: Flags | None = None, tally: Tally | None = None) -> Rows:
        """Rows at points of the cube; which of them are records, if some are not."""
        known = np.ones(len(points), dtype=bool) if known is None else known
        values = np.column_stack(table_of(np.nan_to_num(points), column_axes(schema)))
        return cls(values, known, tally or Tally())

    @property
    def table(self) -> Table:
        """The columns, without invalid rows."""
        return list(self.values[self.known].T)

    def __len__(self) -> int:
        return len(self.values)

    def span(self, start: int, end: int) -> Rows:
        return Rows(self.values[start:end], self.known[start:end], self.tally)

    def points(self, schema: AnySchema, most: int) -> Points:
        """Some records, picked at random, as points of the cube of the schema without steps."""
        chosen = np.random.default_rng(0).permutation(np.flatnonzero(self.known))[:most]
        columns = column_axes(without_steps(schema))
        return np.column_stack([c.join(v) for c, v in zip(columns, self.values[chosen].T, strict=True)])


@dataclass(frozen=True)
class Both:
    """The tables that are compared, and a warning if real records are missing that a release is about."""

    real: Rows
    made: Rows
    schema: AnySchema
    shortage: str | None
    bars: Bars | None


def tables_of(
    real: object, synthetic: object, schema: AnySchema | None = None, *, reading: dict[str, Any] | None = None
) -> Both:
    """Both tables, read."""
    span, bars = None, None
    if isinstance(synthetic, Release):
        schema, span, bars = schema or synthetic.schema, synthetic.span, Bars.of(synthetic)
        synthetic = synthetic.points()
    elif isinstance(synthetic, str | os.PathLike):
        folder = Path(synthetic)
        file, card = _release_folder(folder)
        synthetic = [file]
        if card is not None:
            schema, span = schema or schema_from_dict(card["schema"]), (card["span"][0], card["span"][1])
            bars = Bars.of_folder(folder)
    if schema is None:
        raise ValueError("name the schema of these tables (schema=), or give a release, which has one")
    rows = joined(rows_of(real, schema, **reading or {}), schema.dimension, span[1] if span else None)
    short = shortage(len(rows), span, known=int(rows.known.sum())) if span is not None else None
    if span is not None and len(rows) >= span[1]:  # a release is about some records, not about all since
        rows = rows.span(*span)
    ours = schema.for_releases() if _are_paths(synthetic) and isinstance(schema, Schema) else schema
    return Both(rows, joined(rows_of(synthetic, ours), schema.dimension), schema, short, bars)


def shortage(rows: int, span: tuple[int, int], which: str = "the release", known: int | None = None) -> str | None:
    """A warning if there are too few real records for a release; just as many as the span is long are its own."""
    start, end = span
    if known is not None and known < FEW_KNOWN * rows:
        return (
            f"TOO FEW REAL RECORDS: of {rows:,} rows only {known:,} are records, and all errors are against these; "
            "if the run lost fewer, declare in the schema how its files are written, such as their encoding."
        )
    if rows >= end or rows == end - start:
        return None
    return (
        f"TOO FEW REAL RECORDS: {which} is about records {start + 1:,} to {end:,}, and only {rows:,} were given. All "
        "errors are against these; name all files that the run has read, in their order."
    )


def joined(
    parts: Iterator[Rows], dimension: int, end: int | None = None, say: Callable[[int], None] = lambda rows: None
) -> Rows:
    """The rows of all parts, or the first ``end``; ``say`` is called with how many rows are read."""
    values, known, tally, rows = [np.empty((0, dimension))], [np.empty(0, dtype=bool)], Tally(), 0
    for part in parts:
        values.append(part.values)
        known.append(part.known)
        tally, rows = tally + part.tally, rows + len(part)
        say(rows)
        if end is not None and rows >= end:
            break
    return Rows(np.concatenate(values)[:end], np.concatenate(known)[:end], tally)


def rows_of(tables: object, schema: AnySchema, **reading: Any) -> Iterator[Rows]:  # noqa: ANN401 - fields of Options
    """Rows of tables or files in batches; errors of files name file and line."""
    loose = without_steps(schema)
    if not _are_paths(tables):
        for table in _batches(tables):
            yield table if isinstance(table, Rows) else _encoded(table, schema, loose)
        return
    paths: Any = tables
    policy = policy_of(reading.get("bad_rows"), schema)
    # Nothing is counted here: the run has decided which files it takes, and which columns it leaves out.
    lenient = {"ignore_extra": True}
    with open_source(paths, loose, **lenient | reading | {"bad_rows": policy}) as source:
        for batch in source:
            if batch is None:
                continue
            try:
                found = loose.encode_batch(batch.table, bad_rows=policy)
            except TableError as error:
                raise batch.with_line(error) from None
            points, known = np.zeros((batch.records, schema.dimension)), np.zeros(batch.records, dtype=bool)
            points[batch.places], known[batch.places] = found.points, True
            if found.flags is not None:
                known[batch.places[found.flags]] = False
            yield Rows.at(points, loose, known, found.tally)


def without_steps(schema: AnySchema) -> AnySchema:
    """The schema with numbers as they are written."""
    if not isinstance(schema, Schema):
        return schema
    declared = schema.to_dict()
    for column in declared["columns"].values():
        if column["kind"] == "number":
            column.pop("step", None)
            column.pop("decimals", None)
    return schema_from_dict(declared)


def _batches(tables: object) -> Iterable[object]:
    """Tables, of one or of many. A table is what has columns, a dictionary, an array or a list of records."""
    single = isinstance(tables, Mapping | np.ndarray | Rows) or hasattr(tables, "columns")
    if isinstance(tables, list | tuple) and tables:
        single = isinstance(tables[0], Mapping) and kind_of(tables[0]) == "records"
    return tables if isinstance(tables, Iterable) and not single else [tables]


def _encoded(table: object, schema: AnySchema, loose: AnySchema) -> Rows:
    """A table; an array of floats holds points already."""
    if isinstance(table, np.ndarray) and table.dtype.kind == "f":
        if table.ndim != 2 or table.shape[1] != schema.dimension:
            raise ValueError(f"points must have shape (n, {schema.dimension}), not {table.shape}")
        if not ((table >= 0) & (table <= 1)).all():
            raise ValueError("there are points outside the unit cube: encode the table with its schema first")
        return Rows.at(table, schema)
    found = loose.encode_batch(table)
    return Rows.at(found.points, loose, tally=found.tally)


def _are_paths(tables: object) -> bool:
    listed = tables if isinstance(tables, list | tuple) else [tables]
    return bool(listed) and all(isinstance(one, str | os.PathLike) for one in listed)


def _release_folder(path: Path) -> tuple[str, dict[str, Any] | None]:
    """The file of a table, and the card if it is a release's folder."""
    if found := folders(path):
        raise ValueError(f"{path} holds several releases: name one of them, such as {found[-1]}")
    if not (path / "card.json").exists():
        return str(path), None
    card = read_card(path)
    return str(path / card["data"]), card
