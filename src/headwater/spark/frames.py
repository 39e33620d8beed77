"""Data frames of Spark whose records can be numbered: which columns are read, and which of them say the order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headwater.public.errors import TableError
from headwater.public.frames import check_names
from headwater.public.person import Person
from headwater.public.protocol import AnySchema
from headwater.public.schema import Schema
from headwater.spark.grouping import Repeats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORDER = "headwater_order_"
BY_VALUE = "files are in partitions or buckets of the table, so their names hold values, and so would the order"
_KAFKA = ("topic", "partition", "offset")
_FILES = ("_metadata.file_path", "_metadata.file_block_start")
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_SCANS = frozenset(
    {
        "Project", "Filter", "Relation", "LogicalRelation", "LogicalRDD", "Range", "LocalRelation", "SubqueryAlias",
        "Union", "EventTimeWatermark", "StreamingRelation", "StreamingRelationV2", "StreamingDataSourceV2Relation",
        "StreamingDataSourceV2ScanRelation", "DataSourceV2Relation", "DataSourceV2ScanRelation", "RelationV2",
        "StreamingExecutionRelation", "InMemoryRelation", "View", "HiveTableRelation", "WriteToMicroBatchDataSource",
    }
)  # fmt: skip
"""Steps of a plan that read, and are cheap enough to be done twice."""
_IN_ORDER = frozenset(
    {
        "Project", "SubqueryAlias", "View", "Union", "EventTimeWatermark", "LogicalRelation", "Relation",
        "LocalRelation", "Range", "StreamingRelation", "StreamingRelationV2", "StreamingDataSourceV2Relation",
        "StreamingExecutionRelation",
    }
)  # fmt: skip
"""Steps of a plan that keep every record and its place: what went into any other one may have been sorted or chosen by
value, as what comes out of a checkpoint, an RDD, a filter or a function."""
_ORDER_WAY_OUT = "name columns that say where a record stands in its source with order=, such as partition and offset"


@dataclass(frozen=True)
class Placed:
    """A frame whose records can be numbered.

    Parameters
    ----------
    frame
        The columns that are read, the order columns and that of the key.
    columns
        The columns that are read: those of the schema, and the one that names the person.
    order
        The order columns.
    key
        The column of a public key, and its values.
    sortable
        Whether no two records agree in all order columns.
    scan
        Whether the frame only reads, so that reading it twice costs less than keeping it.
    values
        The same rows without order columns, if these cost something.
    repeats
        How often records repeated so far.
    files
        For each column that is read, its name in files of Parquet and its type of Spark, if it comes from there as it
        is.
    """

    frame: DataFrame
    columns: tuple[str, ...]
    order: tuple[str, ...]
    key: tuple[str, tuple[str, ...]] | None = None
    sortable: bool = False
    scan: bool = True
    values: DataFrame | None = None
    repeats: Repeats = field(default_factory=Repeats)
    files: Mapping[str, tuple[str, str]] | None = None

    def of(self, frame: DataFrame) -> Placed:
        """The same for another frame that has all of these columns."""
        return replace(self, frame=frame, values=None)


def place(
    frame: DataFrame,
    schema: AnySchema,
    order: Sequence[str] | None = None,
    key: tuple[str, tuple[str, ...]] | None = None,
    person: Person | None = None,
) -> Placed:
    """A frame with its order columns: given ones, those of its source, or none.

    Parameters
    ----------
    frame
        Any frame, batch or streaming.
    schema
        What a record is.
    order
        Columns whose values say where a record stands in its source, the last of them a whole number; no two records
        agree in all of them. Unless given: topic, partition and offset if the frame has them, else file and split of
        files that are in no partitions of a table, else partition and row of a table of this process.
    key
        The column of a public key, and its values.
    person
        Who records belong to.
    """
    if not hasattr(frame, "_jdf"):
        raise TypeError(f"a Spark data frame of a session in this process is needed, not {type(frame).__module__}")
    if order is None:
        own = schema.names if isinstance(schema, Schema) else ()
        kafka = {"partition", "offset"} <= set(frame.columns) - set(own)
        order = [name for name in _KAFKA if name in frame.columns] if kafka else None
    if order:
        _check_order(frame, order)
    if key:
        _check_key(frame, key[0])
    given = set(order or ()) | ({key[0]} if key else set())
    columns = [name for name in frame.columns if name not in given]
    if isinstance(schema, Schema):
        wanted = [*schema.names, *([person.column] if person else [])]
        extra = schema.reading.get("ignore_extra", False)
        check_names(columns, wanted, person.column if person else None, ignore_extra=extra)
        columns = wanted
    elif len(columns) != schema.dimension:
        raise TableError(
            f"{len(columns)} columns for {schema.dimension} coordinates", "select those of the cube, in order"
        )
    read = [*map(_quoted, columns), *([_quoted(key[0])] if key else [])]
    steps = list(_steps(frame))
    scan = all(step in _SCANS for step in steps)
    if order:
        in_order = _with(frame, read, [_quoted(name) for name in order])
        return Placed(in_order, tuple(columns), _names(order), key, sortable=True, scan=scan)
    _check_steps(frame, steps)
    if _of_files(frame):
        files = _with(frame, read, _FILES)
        values, known = frame.selectExpr(*read), None if key else _in_files(frame, columns)
        return Placed(files, tuple(columns), _names(_FILES), key, scan=scan, values=values, files=known)
    return Placed(frame.selectExpr(*read), tuple(columns), (), key, scan=scan)


def _check_steps(frame: DataFrame, steps: Sequence[str]) -> None:
    """Refuse a plan that says nothing about where records stand in their source, or says it with their values."""
    unknown = next((step for step in steps if step not in _IN_ORDER), None)
    if unknown:
        raise TableError(
            f"the plan of the data frame has a step ({unknown}) after which the order of records may depend on values",
            f"{_ORDER_WAY_OUT}; or make the frame of files or an Arrow table, and nothing else",
        )
    for step in _plan(frame):
        if _name(step) not in ("LogicalRelation", "Relation"):
            continue
        relation = step.relation()
        if str(relation.getClass().getSimpleName()) != "HadoopFsRelation":
            raise TableError("the source of the data frame is no files, and gives records no place", _ORDER_WAY_OUT)
        if relation.partitionSchema().size() or relation.bucketSpec().isDefined():
            raise TableError(BY_VALUE, _ORDER_WAY_OUT)


def _check_key(frame: DataFrame, name: str) -> None:
    kind = dict(frame.dtypes).get(name)
    if kind is None:
        raise TableError("there is no such column in the data frame", "name a column of it in key=", column=name)
    if kind != "string":
        raise TableError("the column of a key is not text", "cast it first, so that its texts are yours", column=name)


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


def _names(order: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{ORDER}{number}" for number in range(len(order)))


def _with(frame: DataFrame, read: Sequence[str], order: Sequence[str]) -> DataFrame:
    named = [f"{expression} AS {name}" for expression, name in zip(order, _names(order), strict=True)]
    return frame.selectExpr(*read, *named)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _of_files(frame: DataFrame) -> bool:
    """Whether Spark knows the file of every record."""
    known = frame._jdf.queryExecution().analyzed().metadataOutput()
    return any(known.apply(i).name() == "_metadata" for i in range(known.size()))


def _in_files(frame: DataFrame, columns: Sequence[str]) -> dict[str, tuple[str, str]] | None:
    """For each column its name and type in files of Parquet; None if the frame makes something else of one."""
    *steps, source = _plan(frame)
    if any(_name(step) not in ("Project", "SubqueryAlias") for step in steps):
        return None
    if _name(source) == "StreamingRelation":
        if source.dataSource().className() != "parquet":
            return None
    elif _class(source.relation().fileFormat()) != "ParquetFileFormat":
        return None
    names: dict[str, str | None] = {one.exprId().toString(): one.name() for one in _each(source.output())}
    for step in reversed(steps):
        if _name(step) != "Project":
            continue
        for one in _each(step.projectList()):
            if _class(one) == "Alias" and _class(one.child()) == "AttributeReference":
                names[one.exprId().toString()] = names.get(one.child().exprId().toString())
    found, types = dict[str, tuple[str, str]](), dict(frame.dtypes)
    for one in _each(frame._jdf.queryExecution().analyzed().output()):
        if one.name() in columns:
            name = names.get(one.exprId().toString())
            if name is None:
                return None
            found[one.name()] = name, types[one.name()]
    return {name: found[name] for name in columns}


def _each(several: Any) -> list[Any]:  # noqa: ANN401 - of Scala
    return [several.apply(i) for i in range(several.size())]


def _class(one: Any) -> str:  # noqa: ANN401 - of Java
    return str(one.getClass().getSimpleName())


def _steps(frame: DataFrame) -> Iterator[str]:
    """The names of all steps of a plan, last one first."""
    return map(_name, _plan(frame))


def _name(step: Any) -> str:  # noqa: ANN401 - of Java
    return str(step.nodeName()).split(" ")[0]


def _plan(frame: DataFrame) -> Iterator[Any]:
    """All steps of a plan, last one first."""
    steps: list[Any] = [frame._jdf.queryExecution().analyzed()]  # a streaming one has no other before it runs
    while steps:
        step = steps.pop()
        yield step
        steps += _each(step.children())
