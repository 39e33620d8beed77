"""Data frames of Spark whose records can be numbered: which columns are read, and where each record stands.

A data frame has no order of its own. Records are numbered by *order columns*, such as partition and offset of a topic
or file and split, or else by partition and row of the frame. Either way replacing what a record holds changes no
record's number (`proofs/counted.md`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.public.errors import TableError
from headwater.public.person import Person
from headwater.public.protocol import AnySchema
from headwater.public.schema import Schema
from headwater.public.tables import check_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MARK, PART, PLACE = "headwater_mark", "headwater_part", "headwater_place"
NAME_ORDER = "name columns that say where a record stands in its source with order=, such as partition and offset"
BY_VALUE = "files are in partitions or buckets of the table, so their names hold values, and so would the order"
PARTITIONED = re.compile("/[^/=]+=[^/]*/")
"""A folder that is named after a value of a column, as in ``trips/region=north/``."""
_KAFKA = ("topic", "partition", "offset")
_FILES = ("_metadata.file_path", "_metadata.file_block_start")
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_IN_ORDER = frozenset(
    {
        "Project", "SubqueryAlias", "View", "Union", "EventTimeWatermark", "LogicalRelation", "Relation",
        "LocalRelation", "Range", "StreamingRelation", "StreamingRelationV2", "StreamingDataSourceV2Relation",
        "StreamingExecutionRelation",
    }
)  # fmt: skip
"""Steps of a plan that keep every record and its place: what went into any other one may have been sorted or chosen by
value, as what comes out of a checkpoint, an RDD, a filter or a function."""


@dataclass(frozen=True)
class Placed:
    """A frame whose records can be numbered, with the columns that are read and order columns."""

    frame: DataFrame
    columns: tuple[str, ...]  # that are read: of the schema, and the one that names the person
    order: tuple[str, ...] = ()
    sortable: bool = False  # no two records agree in all order columns
    scan: bool = True  # the frame only reads, so that reading it twice costs less than keeping it
    plain: bool = False  # the columns are those of Parquet files


def place(
    frame: DataFrame, schema: AnySchema, order: Sequence[str] | None = None, person: Person | None = None
) -> Placed:
    """A frame with its order columns: given ones, those of its source, or none (`headwater.spark.stream`)."""
    if not hasattr(frame, "_jdf"):
        raise TypeError(f"a Spark data frame of a session in this process is needed, not {type(frame).__module__}")
    if order is None:
        own = schema.inputs if isinstance(schema, Schema) else ()
        kafka = {"partition", "offset"} <= set(frame.columns) - set(own)
        order = [name for name in _KAFKA if name in frame.columns] if kafka else None
    if order:
        _check_order(frame, order)
    columns = [name for name in frame.columns if name not in (order or ())]
    if isinstance(schema, Schema):
        wanted = [*schema.inputs, *([person.column] if person else [])]
        extra = schema.reading.get("ignore_extra", False)
        check_names(columns, wanted, person.column if person else None, ignore_extra=extra)
        columns = wanted
    elif len(columns) != schema.dimension:
        raise TableError(
            f"{len(columns)} columns for {schema.dimension} coordinates", "select those of the cube, in order"
        )
    names, steps = tuple(columns), [_name(step) for step in _plan(frame)]
    if order:
        in_order, named = _with(frame, columns, [backquoted(name) for name in order])
        return Placed(in_order, names, named, sortable=True, scan=all(step in _IN_ORDER for step in steps))
    _check_steps(frame, steps)
    if _of_files(frame):
        of_files, named = _with(frame, columns, _FILES)
        return Placed(of_files, names, named, plain=_plain(frame))
    return Placed(_with(frame, columns, ())[0], names)


def _check_steps(frame: DataFrame, steps: Sequence[str]) -> None:
    """Refuse a plan that says nothing about where records stand in their source, or says it with their values."""
    unknown = next((step for step in steps if step not in _IN_ORDER), None)
    if unknown:
        raise TableError(
            f"the plan of the data frame has a step ({unknown}) after which the order of records may depend on values",
            f"{NAME_ORDER}; or make the frame of files or an Arrow table, and nothing else",
        )
    for step in _plan(frame):
        if _name(step) not in ("LogicalRelation", "Relation"):
            continue
        relation = step.relation()
        if class_of(relation) != "HadoopFsRelation":
            raise TableError("the source of the data frame is no files, and gives records no place", NAME_ORDER)
        if relation.partitionSchema().size() or relation.bucketSpec().isDefined():
            raise TableError(BY_VALUE, NAME_ORDER)


def _check_order(frame: DataFrame, order: Sequence[str]) -> None:
    types = dict(frame.dtypes)
    for name in order:
        if name not in types:
            raise TableError("there is no such column in the data frame", "name columns of it in order=", column=name)
    if types[order[-1]] not in _WHOLE:
        raise TableError(
            "the last order column is not of whole numbers",
            "end order= with an offset or a row number",
            column=order[-1],
        )


def _with(frame: DataFrame, columns: Sequence[str], order: Sequence[str]) -> tuple[DataFrame, tuple[str, ...]]:
    """The columns that are read beside order columns, and the names of these."""
    names = tuple(f"headwater_order_{number}" for number in range(len(order)))
    named = [f"{expression} AS {name}" for expression, name in zip(order, names, strict=True)]
    return frame.selectExpr(*map(backquoted, columns), *named), names


def backquoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _of_files(frame: DataFrame) -> bool:
    known = frame._jdf.queryExecution().analyzed().metadataOutput()
    return any(one.name() == "_metadata" for one in _each(known))


def _plain(frame: DataFrame) -> bool:
    """Whether a frame chooses columns of Parquet files and does nothing else."""
    *steps, source = _plan(frame)
    for step in steps:
        if _name(step) not in ("Project", "SubqueryAlias"):
            return False
        if _name(step) == "Project" and {class_of(one) for one in _each(step.projectList())} != {"AttributeReference"}:
            return False
    if _name(source) == "StreamingRelation":
        return bool(source.dataSource().className() == "parquet")
    return class_of(source.relation().fileFormat()) == "ParquetFileFormat"


def _each(several: Any) -> list[Any]:  # noqa: ANN401 - of Scala
    return [several.apply(i) for i in range(several.size())]


def class_of(one: Any) -> str:  # noqa: ANN401 - of Java
    return str(one.getClass().getSimpleName())


def _name(step: Any) -> str:  # noqa: ANN401 - of Java
    return str(step.nodeName()).split(" ")[0]


def _plan(frame: DataFrame) -> Iterator[Any]:
    steps: list[Any] = [frame._jdf.queryExecution().analyzed()]  # a streaming one has no other before it runs
    while steps:
        step = steps.pop()
        yield step
        steps += _each(step.children())


class Stretch(NamedTuple):
    """Records that follow one another in a partition of a frame, and in their source."""

    part: int  # the partition
    position: int  # how many records of the partition come before
    source: tuple[Any, ...]  # the values of all order columns but the last, the same for all of the records
    first: int  # the smallest value of the last order column
    last: int
    records: int
    where: str = ""  # it is, for an error
    mark: int = 0  # a hash of the source, by which a worker recognises it
    number: int = 0  # of its first record in the run


class ShuffledError(ValueError):
    """The parts of a frame are not stretches of their source: it has to be sorted by its order columns first."""


def same_place() -> TableError:
    """The error about two records that no order column tells apart."""
    return TableError("two records have the same place in their source", "name more columns in order=")


def survey(placed: Placed) -> list[Stretch]:
    """Every stretch of a frame, counted by Spark itself: no value of a record is read."""
    from pyspark.sql import functions as sql

    *sources, last = placed.order or (None,)
    alone = last is not None and not placed.sortable  # splits of a file may be in any order
    columns = [
        sql.spark_partition_id().alias(PART),
        sql.monotonically_increasing_id().bitwiseAND((1 << 33) - 1).alias("position"),  # of the row in its partition
        (sql.lit(0) if last is None else sql.col(last)).cast("bigint").alias(PLACE),
        (sql.xxhash64(*sources) if sources else sql.lit(0).cast("bigint")).alias(MARK),
        *sources,
    ]
    counted = placed.frame.select(*columns).groupBy(PART, MARK, *sources, *([PLACE] if alone else []))
    seen = counted.agg(
        sql.min("position").alias("position"),
        sql.min(PLACE).alias("first"),
        sql.max(PLACE).alias("last"),
        sql.count(sql.lit(1)).alias("records"),
        sql.count(PLACE).alias("placed"),
    )
    return [stretch_of(row, sources, placed) for row in seen.toArrow().to_pylist()]


def stretch_of(row: Mapping[str, Any], sources: Sequence[str], placed: Placed) -> Stretch:
    """A stretch from what Spark counted, unless records of it have no place that is independent of values."""
    source = tuple(row[name] for name in sources)
    if row["placed"] != row["records"] or None in source:
        raise TableError("a record has no place: an order column is null", "leave such records out, or name others")
    if sources and not placed.sortable and PARTITIONED.search(row[sources[0]]):
        raise TableError(BY_VALUE, NAME_ORDER)
    first, last = (row["first"], row["last"]) if placed.order else (row[PART], row[PART])
    if placed.sortable:
        where = ", ".join(map(str, [*source, f"from {first} on"]))
    elif placed.order:
        where = source[0] + (f" from byte {first:,} on" if first else "")
    else:
        where = f"partition {first} of the data frame"
    return Stretch(row[PART], row["position"], source, first, last, row["records"], where, row[MARK])


def ordered(stretches: Iterable[Stretch], t: int) -> list[Stretch]:
    """All stretches of a batch in the order of their source, numbered from ``t`` on."""
    found = sorted(stretches, key=lambda one: (one.source, one.first, one.last, one.part, one.position))
    for one, other in pairwise(found):
        if one.source == other.source and one.last > other.first:
            raise ShuffledError("stretches of the source overlap")
        if one.source == other.source and one.last == other.first:
            raise same_place()
    numbers = accumulate((one.records for one in found), initial=t)
    return [one._replace(number=number) for one, number in zip(found, numbers, strict=False)]


def by_part(stretches: Iterable[Stretch]) -> dict[int, list[Stretch]]:
    """The stretches of each partition, in the order of its rows."""
    found, ends = defaultdict[int, list[Stretch]](list), defaultdict[int, int](int)
    for one in sorted(stretches, key=lambda one: one.position):
        if one.position != ends[one.part]:
            raise ShuffledError("records of several stretches alternate in a partition")
        ends[one.part] += one.records
        found[one.part].append(one)
    return dict(found)
