"""What a release was measured from, as a table that anyone can use: a row for each published noisy table.

The file says all that the release was made from, so the release can be made from it again. docs/answers.md describes
its columns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headwater.public import protocol as registry
from headwater.public.files import FileRefusedError, assembling, need, whole_number
from headwater.public.partition import Floats, Integers
from headwater.public.protocol import AnySchema, Arrays, Header, Measured, State
from headwater.public.tables import kept, pyarrow, texts_to_arrow
from headwater.public.tables import to_arrow as numbers_to_arrow

if TYPE_CHECKING:
    from headwater.public.release import Release

NAME = "measured.parquet"
VERSION = 1
_KEY = b"headwater"
_SEEDS = 1 << 128


class Row(NamedTuple):
    """One published noisy table: of some columns, over the records ``start + 1 … end``."""

    columns: tuple[int, ...]
    start: int
    end: int
    edges: tuple[Integers, ...]
    """For each column the codes at which its bins begin."""
    splits: Integers
    """Of a tree of cells: for each of its nodes, from the root down and from left to right, whether it is halved."""
    counts: Integers
    law: str
    scale: float
    variance: float
    joint: int = 0
    """Tables of one span with the same number, if it is not 0, share one draw of joint noise."""
    present: int | None = None
    """How many records that are not null there are, with noise: of tables of two bins of which one count is noisy."""
    role: str = ""


def can_tell(release: Release) -> bool:
    """Whether what a release was measured from can be written."""
    return hasattr(release.measured, "rows")


def to_arrow(release: Release) -> Any:  # noqa: ANN401 - a pyarrow.Table
    """What a release was measured from as an Arrow table."""
    pa, measured = pyarrow(), release.measured
    rows: list[Row] = measured.rows("Gaussian" in release.facts.noise)  # type: ignore[union-attr]  # `can_tell` says so
    names = getattr(release.schema, "names", None) or [f"x{axis}" for axis in range(release.schema.dimension)]
    bins = _first_values(rows, release.schema)
    tables: list[int] = [len(row.edges) for row in rows]
    sizes = [len(edges) for row in rows for edges in row.edges]

    def numbers(values: list[float] | list[int], kind: type[np.generic] = np.int64) -> Any:  # noqa: ANN401 - as above
        return numbers_to_arrow(np.array(values, dtype=kind), None)

    def lists(values: Any, each: list[int]) -> Any:  # noqa: ANN401 - as above
        ends = np.cumsum([0, *each], dtype=np.int32)
        return pa.ListArray.from_arrays(numbers_to_arrow(ends, None), values)

    def joined(arrays: list[Integers], kind: type[np.generic]) -> Any:  # noqa: ANN401 - as above
        return numbers_to_arrow(np.concatenate([np.empty(0), *arrays]).astype(kind), None)

    present = np.array([row.present is None for row in rows], dtype=np.bool_)
    gone = np.array([text is None for text in bins], dtype=np.bool_)
    texts = kept(texts_to_arrow([text or "" for text in bins]), numbers_to_arrow(~gone, None))
    found = {
        "columns": lists(
            texts_to_arrow([names[c] for row in rows for c in row.columns]), [len(r.columns) for r in rows]
        ),
        "start": numbers([row.start for row in rows]),
        "end": numbers([row.end for row in rows]),
        "bins": lists(lists(texts, sizes), tables),
        "codes": lists(lists(joined([e for row in rows for e in row.edges], np.int32), sizes), tables),
        "splits": lists(joined([row.splits for row in rows], np.int8), [len(row.splits) for row in rows]),
        "counts": lists(joined([row.counts for row in rows], np.int64), [len(row.counts) for row in rows]),
        "law": texts_to_arrow([row.law for row in rows]),
        "scale": numbers([row.scale for row in rows], np.float64),
        "variance": numbers([row.variance for row in rows], np.float64),
        "joint": numbers([row.joint for row in rows]),
        "present": numbers_to_arrow(np.array([row.present or 0 for row in rows], dtype=np.int64), present),
        "role": texts_to_arrow([row.role for row in rows]),
    }
    table = pa.Table.from_arrays(list(found.values()), names=list(found))
    facts = {
        "version": VERSION,
        "mechanism": release.mechanism,
        "t": release.t,
        "start": release.start,
        "seed": str(release.seed),
        **measured.facts(),  # type: ignore[union-attr]
        "schema": release.schema.to_dict(),
    }
    return table.replace_schema_metadata({_KEY: json.dumps(facts, ensure_ascii=False).encode()})


def write(release: Release, path: Path) -> None:
    pyarrow("parquet").write_table(to_arrow(release), path, compression="zstd", compression_level=9)


def read(path: Path, data: bytes, mechanism: str, schema: AnySchema) -> tuple[Measured, int]:
    """What a release was measured from, and its seed."""
    arrow = pyarrow()
    try:
        table = pyarrow("parquet").read_table(arrow.BufferReader(data))
    except arrow.ArrowException as error:
        raise FileRefusedError(f"{path}: the data cannot be read: the file is damaged") from error
    return of_arrow(table, str(path), mechanism, schema)


def of_arrow(table: Any, path: str, mechanism: str, schema: AnySchema) -> tuple[Measured, int]:  # noqa: ANN401 - a pyarrow.Table
    """`to_arrow` backwards; refused if no release was measured like that."""
    with assembling(path):
        facts = json.loads((table.schema.metadata or {})[_KEY])
        need(facts["version"] == VERSION, "version")
        need(facts["mechanism"] == mechanism, "mechanism")
        seed = int(facts["seed"])
        need(0 <= seed < _SEEDS, "seed")
        whole_number(facts["t"], "t")
        need(whole_number(facts["start"], "start") <= facts["t"], "start")
        names = list(getattr(schema, "names", None) or [f"x{axis}" for axis in range(schema.dimension)])
        plain = [name for name in table.column_names if name != "bins"]
        rows = []
        for number in range(table.num_rows):
            one = {name: table.column(name)[number].as_py() for name in plain}
            edges = tuple(np.array(codes, dtype=np.int64) for codes in one["codes"])
            splits, counts = (np.array(one[name], dtype=np.int64) for name in ("splits", "counts"))
            place = tuple(names.index(name) for name in one["columns"]), one["start"], one["end"], edges, splits, counts
            rows.append(Row(*place, *(one[name] for name in Row._fields[6:])))
        found = _assembled(rows, facts, mechanism, schema)
    return found, seed


def to_state(measured: Measured | None, noise: str) -> State:
    """The same as plain values and arrays, for the file of a release."""
    if not hasattr(measured, "rows"):
        return {}, {}
    rows: list[Row] = measured.rows("Gaussian" in noise)  # type: ignore[union-attr]
    layout = [[*row[:3], list(map(len, row.edges)), len(row.splits), len(row.counts), *row[6:]] for row in rows]
    none = np.empty(0, dtype=np.int64)
    return {"measured": {**measured.facts(), "rows": layout}}, {  # type: ignore[union-attr]
        "measured_codes": np.concatenate([none, *(edges for row in rows for edges in row.edges)]).astype(np.int32),
        "measured_splits": np.concatenate([none, *(row.splits for row in rows)]).astype(np.uint8),
        "measured_counts": np.concatenate([none, *(row.counts for row in rows)]).astype(np.int64),
    }


def of_state(header: Header, arrays: Arrays, mechanism: str, schema: AnySchema) -> Measured | None:
    """`to_state` backwards; None if the file does not say what was measured."""
    if "measured" not in header:
        return None
    known, rows = header["measured"], list[Row]()
    codes, splits, counts = (arrays[f"measured_{name}"].astype(np.int64) for name in ("codes", "splits", "counts"))
    for columns, start, end, sizes, nodes, cells, *more in known["rows"]:
        ends = np.cumsum([0, *sizes])
        edges = tuple(codes[first:last] for first, last in pairwise(ends.tolist()))
        rows.append(Row(tuple(columns), start, end, edges, splits[:nodes], counts[:cells], *more))
        codes, splits, counts = codes[ends[-1] :], splits[nodes:], counts[cells:]
    return _assembled(rows, {"t": header["t"], "start": header["start"], **known}, mechanism, schema)


def _assembled(rows: list[Row], facts: Mapping[str, Any], mechanism: str, schema: AnySchema) -> Measured:
    for row in rows:
        need(set(row.columns) <= set(range(schema.dimension)), "columns")
        need(whole_number(row.start, "start") < whole_number(row.end, "end") <= facts["t"], "end")
        whole_number(row.joint, "joint")
        need(row.present is None or type(row.present) is int, "present")
        numbers: list[Any] = [row.scale, row.variance]
        need(all(isinstance(x, float) and 0 <= x < math.inf for x in numbers), "scale")
        need(not row.edges or math.prod(map(len, row.edges)) == len(row.counts), "counts")
        need(all(len(codes) and codes[0] == 0 and (np.diff(codes) > 0).all() for codes in row.edges), "codes")
    found: Measured = registry.measured(mechanism).of_rows(rows, facts, schema)  # type: ignore[attr-defined]
    return found


def _first_values(rows: list[Row], schema: AnySchema) -> list[str | None]:
    """For each bin of each column of each table its first value as text; None for the missing value."""
    from headwater.public.marginals.codes import coders

    known: dict[tuple[int, bytes], list[str | None]] = {}
    columns: Any = list(getattr(schema, "columns", {}).values())
    found = list[str | None]()
    for row in rows:
        for column, edges in zip(row.columns, row.edges, strict=False):  # trees have none
            key = column, edges.tobytes()
            if key not in known:
                places: Floats = coders(schema)[column].places(edges.astype(np.uint16), np.zeros(len(edges)))
                values, gone = columns[column].decode(places) if columns else (places, None)
                missing = [False] * len(edges) if gone is None else gone.tolist()
                known[key] = [None if none else str(v) for v, none in zip(values.tolist(), missing, strict=True)]
            found += known[key]
    return found
