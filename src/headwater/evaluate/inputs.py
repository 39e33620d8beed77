"""What `headwater.evaluate.measures.evaluate` takes: tables, files, releases and their folders. NOT PRIVATE."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headwater.evaluate.encoded import Encoded, Encoder, batches, joined
from headwater.evaluate.evaluation import shortage
from headwater.public.bad_rows import policy_of
from headwater.public.card import read_card
from headwater.public.categorical import Boolean, Category
from headwater.public.column import Column
from headwater.public.errors import TableError
from headwater.public.folder import folders
from headwater.public.numeric import Number
from headwater.public.protocol import AnySchema
from headwater.public.release import Release
from headwater.public.schema import Schema, schema_from_dict
from headwater.public.times import Datetime
from headwater.secret.read.batch import Batch
from headwater.secret.read.source import open_source

MOST_VALUES = 50
"""A column of whole numbers with more different values than this is a column of numbers, if no schema says it."""

Span = tuple[int, int]


def tables_of(
    real: object,
    synthetic: object,
    schema: AnySchema | None = None,
    *,
    reading: dict[str, Any] | None = None,
) -> tuple[Encoded, Encoded, AnySchema, str | None]:
    """Both tables, encoded, and their schema. A release is compared with the records that it is about.

    The last part is a warning if real records are missing.

    ``reading`` holds fields of `headwater.secret.read.Options`: how files of real records are read.
    """
    span: Span | None = None
    if isinstance(synthetic, Release):
        schema, span = schema or synthetic.schema, synthetic.span
        synthetic = Encoded(synthetic.points())
    elif _is_path(synthetic):
        file, card = _release_folder(synthetic)  # type: ignore[arg-type]  # it is a path
        synthetic = [file]
        if card is not None:
            schema, span = schema or schema_from_dict(card["schema"]), (card["span"][0], card["span"][1])
    if schema is None:
        schema = inferred(real, synthetic)
    x = encoded(real, schema, end=span[1] if span else None, **(reading or {}))
    short = shortage(len(x), span, known=len(x.known())) if span is not None else None
    if span is not None and len(x) >= span[1]:  # a release is about some records, not about all that came since
        x = x[slice(*span)]
    ours = schema.for_releases() if _are_paths(synthetic) and isinstance(schema, Schema) else schema
    return x.known(), encoded(synthetic, ours), schema, short


def encoded(tables: object, schema: AnySchema, *, end: int | None = None, **reading: Any) -> Encoded:  # noqa: ANN401
    """All rows of tables or files, or the first ``end``, in the cube, with what the bounds cut."""
    found, rows = list[Encoded](), 0
    for part in rows_of(tables, schema, **reading):
        found.append(part[:])  # without its table
        rows += len(part)
        if end is not None and rows >= end:
            break
    whole = joined(found, schema.dimension)
    return whole if end is None else whole[:end]


def rows_of(tables: object, schema: AnySchema, **reading: Any) -> Iterator[Encoded]:  # noqa: ANN401 - fields of Options
    """Rows of tables or files in batches, encoded; errors of files name file and line."""
    encode = Encoder(schema)
    if not _are_paths(tables):
        yield from map(encode, batches(tables))
        return
    paths: Any = tables
    reading["bad_rows"] = policy_of(reading.get("bad_rows"), schema)
    with open_source(paths, schema, **reading) as source:
        for batch in source:
            if batch is not None:
                try:
                    yield _good_rows(batch, schema, encode, reading["bad_rows"])
                except TableError as error:
                    raise batch.with_line(error) from None


def _good_rows(batch: Batch, schema: AnySchema, encode: Encoder, policy: str) -> Encoded:
    """The rows of a batch; those that are no records are nowhere, but keep their places."""
    if policy == "stop":
        return encode(batch.table)
    flags = schema.encode_batch(batch.table, bad_rows=policy).flags
    if flags is None and not batch.bad:
        return encode(batch.table)
    good = np.arange(batch.table.num_rows) if flags is None else np.flatnonzero(~flags)
    return encode(batch.table.take(good)).spread(batch.places[good], batch.records)


def inferred(*tables: object) -> Schema:
    """A schema for comparing tables that have none, from their columns. It depends on both: never publish it."""
    if any(_are_paths(table) or isinstance(table, np.ndarray | Encoded) for table in tables):
        raise ValueError("name the schema of these tables (schema=), or give a release, which has one")
    frames = [_frame(table) for table in tables]
    names = frames[0].columns
    for frame in frames[1:]:
        if set(frame.columns) != set(names):
            odd = sorted(map(str, set(frame.columns) ^ set(names)))
            raise ValueError(f"the tables have different columns: {', '.join(odd)} is in one of them only")
    return Schema({name: _column([frame[name] for frame in frames]) for name in names})


def _frame(table: object) -> Any:  # noqa: ANN401 - of any library
    if isinstance(table, dict):
        from headwater.public.arrow import pyarrow

        table = pyarrow().table(table)
    import narwhals as nw  # here, so that those who compare nothing start faster

    try:
        return nw.from_native(table, eager_only=True)
    except TypeError:
        raise TypeError(f"a {type(table).__name__} has no columns to compare: give data frames, or a schema") from None


def _column(series: Sequence[Any]) -> Column:
    """A column that holds all values of some series."""
    import narwhals as nw

    missing = any(s.null_count() or (s.dtype.is_float() and s.is_nan().any()) for s in series)
    kept = [s.drop_nulls() for s in series]
    kept = [s.filter(~s.is_nan()) if s.dtype.is_float() else s for s in kept]
    kind = series[0].dtype
    if all(s.dtype == nw.Boolean for s in series):
        return Boolean(missing=missing)
    filled = [s for s in kept if len(s)]
    if filled and kind.is_temporal() and kind != nw.Time:
        low, high = min(s.min() for s in filled), max(s.max() for s in filled)
        return Datetime(low, high, "1s", missing=missing) if low < high else Category(str(low), missing=missing)
    if filled and all(s.dtype.is_numeric() for s in series):
        low, high = min(float(s.min()) for s in filled), max(float(s.max()) for s in filled)
        values = {value for s in filled for value in s.unique().to_list()}
        if len(values) <= MOST_VALUES and all(float(value).is_integer() for value in values) and low == high:
            return Category(*sorted(map(int, values)), missing=missing)
        return Number(low, high if low < high else low + 1, missing=missing)
    return Category(*sorted({str(value) for s in filled for value in s.unique().to_list()} or {""}), missing=missing)


def _is_path(tables: object) -> bool:
    return isinstance(tables, str | os.PathLike)


def _are_paths(tables: object) -> bool:
    return _is_path(tables) or (isinstance(tables, list | tuple) and bool(tables) and all(map(_is_path, tables)))


def _release_folder(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any] | None]:
    """The file of a table, and the card if it is a release's folder."""
    folder = Path(path)
    if found := folders(folder):
        raise ValueError(f"{path} holds several releases: name one of them, such as {found[-1]}")
    if not (folder / "card.json").exists():
        return str(path), None
    card = read_card(folder)
    return str(folder / card["data"]), card
