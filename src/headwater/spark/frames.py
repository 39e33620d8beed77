"""The records of a Spark data frame as counts by bucket: executors read, encode and count, the driver adds up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headwater.mechanisms.counted import BucketedCounts
from headwater.run.config import RunConfig
from headwater.spark.places import SameOrderError, ShuffledError, Stretch, first_numbers
from headwater.spark.workers import (
    COUNTED,
    ENCODED,
    Adder,
    BucketCounter,
    Encoder,
    empty_rows,
    retold,
    synthesizer,
    tally_of,
    unpack,
)
from headwater.table.bad_rows import BadRow, with_way_out
from headwater.table.errors import TableError
from headwater.table.frames import check_names
from headwater.table.schema import Schema
from headwater.table.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORDER = "headwater_order_"
_KAFKA = ("topic", "partition", "offset")
_FILES = ("_metadata.file_path", "_metadata.file_block_start")
_IN_ORDER = frozenset(
    {
        "Project", "Filter", "Relation", "LogicalRelation", "LogicalRDD", "Range", "LocalRelation", "SubqueryAlias",
        "Union", "EventTimeWatermark", "MapInArrow", "MapInPandas", "StreamingRelation", "StreamingRelationV2",
        "StreamingDataSourceV2Relation", "StreamingDataSourceV2ScanRelation", "DataSourceV2Relation",
        "DataSourceV2ScanRelation", "RelationV2", "StreamingExecutionRelation", "Generate", "SerializeFromObject",
        "ExternalRDD", "InMemoryRelation", "View", "HiveTableRelation", "WriteToMicroBatchDataSource",
    }
)  # fmt: skip
"""Steps of a plan that keep every record in its partition, and in its place there."""


@dataclass(frozen=True)
class Placed:
    """A frame whose records can be numbered.

    Parameters
    ----------
    frame
        The columns of the schema, the order columns and that of the key.
    columns
        The columns of the schema, as the frame names them.
    order
        The order columns.
    key
        The column of a public key, and its values.
    sortable
        Whether order columns tell all records apart.
    """

    frame: DataFrame
    columns: tuple[str, ...]
    order: tuple[str, ...]
    key: tuple[str, tuple[str, ...]] | None = None
    sortable: bool = False


@dataclass
class Counted:
    """The records of a frame that one run takes. Secret.

    Parameters
    ----------
    counts
        By bucket; None if there are no records.
    tally
        What was clipped, unlisted, missing or bad.
    bad
        Bad rows for the quarantine.
    """

    counts: BucketedCounts | None = None
    tally: Tally = field(default_factory=Tally)
    bad: list[BadRow] = field(default_factory=list)


def place(
    frame: DataFrame,
    schema: Any,  # noqa: ANN401 - of a table or a cube
    order: Sequence[str] | None = None,
    key: tuple[str, tuple[str, ...]] | None = None,
) -> Placed:
    """A frame with its order columns: given ones, those of its source, or none.

    Parameters
    ----------
    frame
        Any frame, batch or streaming.
    schema
        What a record is.
    order
        Columns whose values say where a record stands in its source, the last of them a whole number; together they
        tell all records apart. Unless given: topic, partition and offset if the frame has them, else file and place.
    key
        The column of a public key, and its values.
    """
    if not hasattr(frame, "_jdf"):
        raise TypeError(f"a Spark data frame of a session in this process is needed, not {type(frame).__module__}")
    if order is None:
        own = schema.names if isinstance(schema, Schema) else ()
        kafka = {"partition", "offset"} <= set(frame.columns) - set(own)
        order = [name for name in _KAFKA if name in frame.columns] if kafka else None
    given = set(order or ()) | ({key[0]} if key else set())
    columns = [name for name in frame.columns if name not in given]
    if isinstance(schema, Schema):
        check_names(columns, schema.names)
        columns = list(schema.names)
    elif len(columns) != schema.dimension:
        raise TableError(
            f"{len(columns)} columns for {schema.dimension} coordinates", "select those of the cube, in order"
        )
    wanted = [*map(_quoted, columns), *([_quoted(key[0])] if key else [])]
    if order:
        in_order = _with(frame, wanted, [_quoted(name) for name in order])
        return Placed(in_order, tuple(columns), _names(order), key, sortable=True)
    shuffled = _shuffled(frame)
    if shuffled:
        raise TableError(
            f"the plan of the data frame has a step ({shuffled}) after which the order of records may depend on values",
            "name columns that say where a record stands in its source with order=, such as partition and offset",
        )
    if _of_files(frame):
        return Placed(_with(frame, wanted, _FILES), tuple(columns), _names(_FILES), key)
    return Placed(frame.selectExpr(*wanted), tuple(columns), (), key)


def _names(order: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{ORDER}{number}" for number in range(len(order)))


def _with(frame: DataFrame, wanted: Sequence[str], order: Sequence[str]) -> DataFrame:
    named = [f"{expression} AS {name}" for expression, name in zip(order, _names(order), strict=True)]
    return frame.selectExpr(*wanted, *named)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _of_files(frame: DataFrame) -> bool:
    """Whether Spark knows the file of every record."""
    known = frame._jdf.queryExecution().analyzed().metadataOutput()
    return any(known.apply(i).name() == "_metadata" for i in range(known.size()))


def _shuffled(frame: DataFrame) -> str:
    """The first step of a plan that may move records from partition to partition; empty if there is none."""
    plan = frame._jdf.queryExecution().analyzed()  # a streaming one has no other before it runs
    steps = [plan]
    while steps:
        step = steps.pop()
        if step.nodeName().split(" ")[0] not in _IN_ORDER:
            return str(step.nodeName())
        children = step.children()
        steps += [children.apply(i) for i in range(children.size())]
    return ""


def count(placed: Placed, config: RunConfig, times: Mapping[int, int], policy: str) -> dict[int, Counted]:
    """Count the records of a frame, for each key those after the first so many.

    Parameters
    ----------
    placed
        The frame.
    config
        Of the run.
    times
        For the number of each key that is to be counted, how many records there are before; 0 without keys.
    policy
        What happens to bad rows.
    """
    from pyspark import StorageLevel

    config = replace(config, seed=None)  # not for other machines
    encoder = Encoder(config, placed.columns, placed.order, placed.sortable, policy, placed.key)
    encoded = placed.frame.mapInArrow(encoder, _ddl(ENCODED)).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        heads = encoded.drop("rows").toArrow().to_pylist()
        notes = [json.loads(head["notes"]) for head in heads]
        try:
            if any(note.get("shuffled") for note in notes):
                raise ShuffledError("the frame was shuffled")
            first = {key: first_numbers(_stretches(heads, key), t) for key, t in times.items()}
        except ShuffledError:
            if not placed.sortable:
                problem = "the records of a file are not in order in the data frame"
                raise TableError(
                    problem, "name columns that say where a record stands in its source with order="
                ) from None
            ordered = placed.frame.repartitionByRange(*placed.order).sortWithinPartitions(*placed.order)
            return count(Placed(ordered, placed.columns, (), placed.key), config, times, policy)
        except SameOrderError:
            raise TableError("two records have the same place in their source", "name more columns in order=") from None
        _raise_first(heads, notes, placed)
        found = {key: Counted() for key in times}
        records = {(h["key"], h["part"], h["number"]): h["records"] for h in heads}
        numbers = {
            (key, *name): (start, records[key, *name])
            for key, starts in first.items()
            for name, start in starts.items()
            if (key, *name) in records
        }
        for key, counts in _counts(encoded, config, numbers).items():
            found[key].counts = counts
        for head, note in zip(heads, notes, strict=True):
            if head["key"] in found:
                one = found[head["key"]]
                one.tally += tally_of(note)
                start = first[head["key"]][head["part"], head["number"]] - times[head["key"]]
                one.bad += [BadRow(start + row, retold(told), text) for row, told, text in note.get("bad", ())]
        return found
    finally:
        encoded.unpersist()


def _counts(
    encoded: DataFrame, config: RunConfig, numbers: Mapping[tuple[int, int, int], tuple[int, int]]
) -> dict[int, BucketedCounts]:
    """The counts of all stretches, for each key. Buckets that many partitions share are added up by Spark."""
    synth = synthesizer(config)
    counted = encoded.select("key", "part", "number", "rows").mapInArrow(BucketCounter(config, numbers), _ddl(COUNTED))
    parts, buckets = set[tuple[int, int, int]](), set[tuple[int, int]]()
    for (key, part, _), (start, records) in numbers.items():
        if not records:
            continue
        for number in (start, start + records - 1):  # those in between are of this stretch alone
            bucket = synth.bucket(number)[0]
            parts.add((key, part, bucket))
            buckets.add((key, bucket))
    if len(parts) > 3 * len(buckets):
        add = Adder(config)
        # Spark counts the arguments of what it is given, and would count `self`.
        counted = counted.groupBy("key", "start").applyInArrow(lambda table: add(table), _ddl(COUNTED))
    return unpack(counted.toArrow(), empty_rows(synth))


def _stretches(heads: Sequence[Mapping[str, Any]], key: int) -> list[Stretch]:
    return [
        Stretch(h["part"], h["number"], tuple(json.loads(h["source"])), h["first"], h["last"], h["records"])
        for h in heads
        if h["key"] == key
    ]


def _raise_first(
    heads: Sequence[Mapping[str, Any]],
    notes: Sequence[Mapping[str, Any]],
    placed: Placed,
) -> None:
    """Refuse the batch for the bad row that comes first, and say where that is."""
    wrong = [(head, note["error"]) for head, note in zip(heads, notes, strict=True) if note.get("error")]
    if not wrong:
        return
    head, told = min(wrong, key=lambda one: [one[0][name] for name in ("source", "first", "part", "number")])
    same = [one for one in heads if all(one[name] == head[name] for name in ("part", "source", "first"))]
    earlier = sum(one["records"] for one in same if one["number"] < head["number"])
    raise with_way_out(_located(retold(told), head, placed, earlier))


def _located(error: TableError, head: Mapping[str, Any], placed: Placed, earlier: int) -> TableError:
    """An error with the file and the row in its split, or the partition of the topic."""
    source = json.loads(head["source"])
    if not placed.order or error.row is None:
        located = error.at(file=f"partition {head['part']} of the data frame")
    elif len(source) == 1 and isinstance(source[0], str):
        split = f" from byte {head['first']:,} on" if head["first"] else ""
        located = error.at(file=f"{source[0]}{split}")
    else:
        located = error.at(file=", ".join(map(str, [*source, f"from {head['first']} on"])))
    if located.row is not None and located.row >= 0:
        located.row += earlier
    return located


def _ddl(schema: Any) -> str:  # noqa: ANN401 - of Arrow, which ships no types
    """An Arrow schema as Spark writes it."""
    types = {"int32": "int", "int64": "bigint", "string": "string", "binary": "binary"}
    return ", ".join(f"{column.name} {types[str(column.type)]}" for column in schema)
