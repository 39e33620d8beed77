"""What `headwater.evaluate` takes: tables, files, releases and their folders. NOT PRIVATE.

Rows are points of the schema's cube. Those that are no records are rows of NaN, which keep their places until the span
of a release is cut out. A value beyond a bound is at the bound, as in every release; how many were is tallied.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headwater.evaluation.axes import Floats
from headwater.public.errors import TableError
from headwater.public.folder import folders, read_card
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
    """Rows as points of the cube, and what encoding did to them."""

    points: Floats
    tally: Tally = field(default_factory=Tally)


def known(points: Floats) -> Floats:
    """Rows that are records: the others are NaN."""
    return points[~np.isnan(points).any(axis=1)]


def tables_of(
    real: object, synthetic: object, schema: AnySchema | None = None, *, reading: dict[str, Any] | None = None
) -> tuple[Rows, Floats, AnySchema, str | None]:
    """Both tables as points, their schema, and a warning if real records are missing that a release is about."""
    span: tuple[int, int] | None = None
    if isinstance(synthetic, Release):
        schema, span = schema or synthetic.schema, synthetic.span
        synthetic = synthetic.points()
    elif isinstance(synthetic, str | os.PathLike):
        file, card = _release_folder(Path(synthetic))
        synthetic = [file]
        if card is not None:
            schema, span = schema or schema_from_dict(card["schema"]), (card["span"][0], card["span"][1])
    if schema is None:
        raise ValueError("name the schema of these tables (schema=), or give a release, which has one")
    rows = joined(rows_of(real, schema, **reading or {}), schema.dimension, span[1] if span else None)
    short = shortage(len(rows.points), span, known=len(known(rows.points))) if span is not None else None
    if span is not None and len(rows.points) >= span[1]:  # a release is about some records, not about all since
        rows = Rows(rows.points[slice(*span)], rows.tally)
    ours = schema.for_releases() if _are_paths(synthetic) and isinstance(schema, Schema) else schema
    made = joined(rows_of(synthetic, ours), schema.dimension).points
    return Rows(known(rows.points), rows.tally), made, schema, short


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


def joined(parts: Iterator[Rows], dimension: int, end: int | None = None) -> Rows:
    """The rows of all parts, or the first ``end``."""
    found, tally, rows = [np.empty((0, dimension))], Tally(), 0
    for part in parts:
        found.append(part.points)
        tally, rows = tally + part.tally, rows + len(part.points)
        if end is not None and rows >= end:
            break
    return Rows(np.concatenate(found)[:end], tally)


def rows_of(tables: object, schema: AnySchema, **reading: Any) -> Iterator[Rows]:  # noqa: ANN401 - fields of Options
    """Rows of tables or files in batches; errors of files name file and line. Rows stay as they are."""
    if not _are_paths(tables):
        for table in _batches(tables):
            yield table if isinstance(table, Rows) else _encoded(table, schema)
        return
    paths: Any = tables
    policy = policy_of(reading.get("bad_rows"), schema)
    # Nothing is counted here: the run has decided which files it takes, and which columns it leaves out.
    lenient = {"ignore_extra": True}
    with open_source(paths, schema, **lenient | reading | {"bad_rows": policy}) as source:
        for batch in source:
            if batch is None:
                continue
            try:
                found = schema.encode_batch(batch.table, bad_rows=policy)
            except TableError as error:
                raise batch.with_line(error) from None
            points = np.full((batch.records, schema.dimension), np.nan)
            points[batch.places] = found.points
            if found.flags is not None:
                points[batch.places[found.flags]] = np.nan
            yield Rows(points, found.tally)


def _batches(tables: object) -> Iterable[object]:
    """Tables, of one or of many. A table is what has columns, a dictionary, an array or a list of records."""
    single = isinstance(tables, Mapping | np.ndarray | Rows) or hasattr(tables, "columns")
    if isinstance(tables, list | tuple) and tables:
        single = isinstance(tables[0], Mapping) and kind_of(tables[0]) == "records"
    return tables if isinstance(tables, Iterable) and not single else [tables]


def _encoded(table: object, schema: AnySchema) -> Rows:
    """A table as points; an array of floats holds points already."""
    if isinstance(table, np.ndarray) and table.dtype.kind == "f":
        if table.ndim != 2 or table.shape[1] != schema.dimension:
            raise ValueError(f"points must have shape (n, {schema.dimension}), not {table.shape}")
        return Rows(table.astype(np.float64, copy=False))
    found = schema.encode_batch(table)
    return Rows(found.points, found.tally)


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
