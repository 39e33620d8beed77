"""The records of a Spark data frame as counts by bucket: executors read, encode and count, the driver adds up.

A frame is read twice. First Spark itself counts the records of each stretch, which gives every record its number (of
Parquet files the footers say it); then records are encoded and counted, by Spark or by workers in Python. What was seen
then is compared with what was counted first, so a frame that changes between the two is noticed; it is then kept by
executors, and read again from there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headwater.public.bad_rows import BadRow, with_way_out
from headwater.public.errors import TableError
from headwater.public.protocol import Rows
from headwater.public.tally import Tally
from headwater.run.config import RunConfig
from headwater.secret.counts import CountedParts
from headwater.spark.files import Files
from headwater.spark.footers import stretches_of
from headwater.spark.frames import BY_VALUE, Placed
from headwater.spark.grouping import grouped
from headwater.spark.packing import DDL, unpack, unpack_notes, unpack_rows
from headwater.spark.places import SameOrderError, ShuffledError, Stretch, by_part, first_numbers, ordered
from headwater.spark.session import with_settings
from headwater.spark.symbols import Symbols
from headwater.spark.workers import SAME, UNREADABLE, Adder, Counter, Encoder, Slot, empty_rows, retold, synthesizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOO_LARGE = "spark.driver.maxResultSize"
MARK, PART, PLACE = "headwater_mark", "headwater_part", "headwater_place"
_NAME_ORDER = "name columns that say where a record stands in its source with order="
_ARROW_RECORDS = 1 << 16
_LEAVES = "spark.sql.leafNodeDefaultParallelism"
_FIXED = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double")
_PARTITIONED = re.compile("/[^/=]+=[^/]*/")
"""A folder that is named after a value of a column, as in ``trips/region=north/``."""


@dataclass
class Counted:
    """The records of a frame that one run takes. Secret.

    Parameters
    ----------
    counts
        By bucket; None if there are no records, or if they belong to people.
    rows
        The records themselves, in order, if they belong to people.
    tally
        What was clipped, unlisted, missing or bad.
    bad
        Bad rows for the quarantine.
    """

    counts: CountedParts | None = None
    rows: Rows | None = None
    tally: Tally = field(default_factory=Tally)
    bad: list[BadRow] = field(default_factory=list)


def count(
    placed: Placed,
    config: RunConfig,
    times: Mapping[int, int],
    policy: str,
    person_key: bytes | None = None,
    due: Mapping[int, int | None] | None = None,
) -> dict[int, Counted]:
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
    person_key
        The key of hashes of people, if records belong to people.
    due
        For the number of each key, at how many records its next release is due, if their number decides that. Where
        none is due before the last record, records are counted to be taken at once, in fewer buckets.
    """
    encoder = Encoder(replace(config, seed=None), placed.columns, policy, placed.key, person_key)
    try:
        return _count_any(placed, encoder, times, due or {})
    except Exception as error:
        if TOO_LARGE not in str(error):
            raise
        raise TableError(
            "what the records of this batch count to is more than the driver takes at once",
            f"give it fewer records at a time (maxFilesPerTrigger, maxOffsetsPerTrigger), or raise {TOO_LARGE}",
        ) from None


def _count_any(
    placed: Placed, encoder: Encoder, times: Mapping[int, int], due: Mapping[int, int | None]
) -> dict[int, Counted]:
    """The counts, from the frame itself, from a copy that executors keep, or from one that is sorted."""
    with with_settings(placed.frame.sparkSession, _settings(placed)):
        if placed.scan:
            try:
                return _count(placed, encoder, times, due)
            except ShuffledError:
                pass
        with _kept(placed.frame) as frame:
            try:
                return _count(placed.of(frame), encoder, times, due)
            except ShuffledError:
                if not placed.sortable:
                    raise TableError("the records of a file are not in order in the data frame", _NAME_ORDER) from None
        in_order = placed.frame.repartitionByRange(*placed.order).sortWithinPartitions(*placed.order)
        with _kept(in_order) as frame:
            return _count(placed.of(frame), encoder, times, due)


def _count(
    placed: Placed, encoder: Encoder, times: Mapping[int, int], due: Mapping[int, int | None]
) -> dict[int, Counted]:
    try:
        surveyed, files = _survey(placed)
        stretches = ordered(surveyed)
        places = by_part(stretches)
        first = {key: first_numbers(stretches, key, t) for key, t in times.items()}
        ends = {key: t + sum(one.of_key.get(key, 0) for one in stretches) for key, t in times.items()}
        until = {key: end if (due.get(key) or end) >= end else None for key, end in ends.items()}
        quick = None if files else _grouped(placed, encoder, stretches, first, until)
        if quick is not None:
            placed.repeats.after(quick.counts, quick.tally)
            return {0: quick}
        slots = {
            part: [
                Slot(i, stretches[i].records, {key: first[key][i] for key in times}, stretches[i].mark) for i in indices
            ]
            for part, indices in places.items()
        }
        table = _counted(placed, encoder, slots, stretches, first, until, files)
        said = {part: json.loads(note) for part, note in unpack_notes(table).items()}
        if any(note["wrong"] == UNREADABLE for note in said.values()):
            placed.repeats.readable = False
            return _count(placed, encoder, times, due)
        _compare(said, stretches, places)
    except SameOrderError:
        raise TableError("two records have the same place in their source", "name more columns in order=") from None
    _raise_first(list(said.values()), stretches, placed)
    found = {key: Counted() for key in times}
    empty = empty_rows(synthesizer(encoder.config))
    if encoder.person_key is not None:
        found[0].rows = unpack_rows(table, empty)
    else:
        for key, parts in unpack(table, empty).items():
            found[key].counts = CountedParts.of(parts, until[key])
    for note in said.values():
        for key, tally in note["tally"].items():
            found[int(key)].tally += Tally.from_dict(tally)
        for key, number, error, text in note["bad"]:
            found[key].bad.append(BadRow(number - times[key], retold(error), text))
    for one in found.values():
        one.bad.sort(key=lambda bad: bad.row)
        placed.repeats.after(one.counts, one.tally)
    return found


def _grouped(
    placed: Placed,
    encoder: Encoder,
    stretches: Sequence[Stretch],
    first: Mapping[int, Sequence[int]],
    until: Mapping[int, int | None],
) -> Counted | None:
    """The counts if Spark can find them without Python. Order columns have to be seen in order, which it cannot."""
    if placed.sortable or placed.key or encoder.person_key is not None or not stretches:
        return None
    synth = synthesizer(encoder.config)
    symbols = Symbols.of(synth, placed.columns, dict(placed.frame.dtypes))
    frame, repeats = placed.values or placed.frame, placed.repeats
    try:
        found = symbols and grouped(frame, symbols, synth, stretches, first[0], until[0], repeats)
    except Exception as error:
        if TOO_LARGE not in str(error):
            raise
        return None  # groups are more and larger than what Python makes of them
    return Counted(CountedParts.of_arrays(found[0]), tally=found[1]) if found else None


def _survey(placed: Placed) -> tuple[list[Stretch], Files | None]:
    """Every stretch of a frame, and its files if workers can read them.

    Of plain files the footers say it, else it is counted by Spark itself: no value of a record is read but its key.
    """
    from pyspark.sql import functions as sql

    if placed.order and not placed.sortable and not placed.key:
        found = stretches_of(placed.values or placed.frame)
        if found is not None and not any(_PARTITIONED.search(one.source[0]) for one in found[0]):
            return found[0], Files.of(found[1], placed.files) if placed.repeats.readable else None
    *sources, last = placed.order or (None,)
    alone = last is not None and not placed.sortable  # splits of a file may be in any order
    key = sql.lit(0)
    if placed.key:
        name, values = placed.key
        listed = sql.create_map(*(sql.lit(one) for pair in enumerate(values) for one in reversed(pair)))
        key = sql.coalesce(listed[sql.col(_quoted(name)).cast("string")], sql.lit(-1))
    columns = [
        sql.spark_partition_id().alias(PART),
        sql.monotonically_increasing_id().bitwiseAND((1 << 33) - 1).alias("position"),  # of the row in its partition
        key.alias("key"),
        (sql.lit(0) if last is None else sql.col(last)).cast("bigint").alias("place"),
        (sql.xxhash64(*sources) if sources else sql.lit(0).cast("bigint")).alias(MARK),
        *sources,
    ]
    counted = placed.frame.select(*columns).groupBy(PART, "key", MARK, *sources, *(["place"] if alone else []))
    seen = counted.agg(
        sql.min("position").alias("position"),
        sql.min("place").alias("first"),
        sql.max("place").alias("last"),
        sql.count(sql.lit(1)).alias("records"),
        sql.count("place").alias("placed"),
    )
    return _joined(seen.toArrow().to_pylist(), sources, placed), None


def _joined(rows: Sequence[Mapping[str, Any]], sources: Sequence[str], placed: Placed) -> list[Stretch]:
    """Stretches from what was counted for each key."""
    found = dict[tuple[Any, ...], Stretch]()
    for row in rows:
        source = tuple(row[name] for name in sources)
        if row["placed"] != row["records"] or None in source:
            raise TableError("a record has no place: an order column is null", "leave such records out, or name others")
        if sources and not placed.sortable and _PARTITIONED.search(row[sources[0]]):
            raise TableError(BY_VALUE, _NAME_ORDER)
        part, first, last = row[PART], row["first"], row["last"]
        if not placed.order:
            first = last = part
        name = (part, source) if placed.sortable else (part, source, first)
        one = found.get(name) or Stretch(part, row["position"], source, first, last, 0, {}, row[MARK])
        found[name] = one._replace(
            position=min(one.position, row["position"]),
            first=min(one.first, first),
            last=max(one.last, last),
            records=one.records + row["records"],
            of_key=one.of_key | {row["key"]: row["records"]},
        )
    return list(found.values())


def _counted(
    placed: Placed,
    encoder: Encoder,
    slots: Mapping[int, Sequence[Slot]],
    stretches: Sequence[Stretch],
    first: Mapping[int, Sequence[int]],
    until: Mapping[int, int | None],
    files: Files | None,
) -> Any:  # noqa: ANN401 - of Arrow, which ships no types
    """The counts of all stretches. Buckets that many partitions share are added up by Spark."""
    read = [*map(_quoted, placed.columns), *([_quoted(placed.key[0])] if placed.key else [])]
    if placed.sortable:
        *sources, last = placed.order
        mark = f"xxhash64({', '.join(sources)})" if sources else "CAST(0 AS BIGINT)"
        read += [f"{mark} AS {MARK}", f"CAST({last} AS BIGINT) AS {PLACE}"]
    counter = Counter(encoder, slots, (MARK, PLACE) if placed.sortable else None, until, files)
    # Where workers read files, what Spark gives each of them is one row without a column.
    session, parts = placed.frame.sparkSession, len(files.splits) if files else 0
    frame = session.range(0, parts, 1, parts) if files else placed.frame.selectExpr(*read)
    counted = frame.mapInArrow(counter, DDL)
    shared, buckets = set[tuple[int, int, int]](), set[tuple[int, int]]()
    synth = synthesizer(encoder.config)
    for key, numbers in first.items():
        for one, start in zip(stretches, numbers, strict=True):
            if not one.of_key.get(key) or encoder.person_key is not None:
                continue
            for number in (start, start + one.of_key[key] - 1):  # those in between are of this stretch alone
                bucket = synth.bucket(number, until[key])[0]
                shared.add((key, one.part, bucket))
                buckets.add((key, bucket))
    if len(shared) > 3 * len(buckets):
        add = Adder(encoder.config)
        # Spark counts the arguments of what it is given, and would count `self`.
        counted = counted.groupBy("key", "start").applyInArrow(lambda table: add(table), DDL)
    return counted.toArrow()


def _compare(said: Mapping[int, Mapping[str, Any]], stretches: Sequence[Stretch], places: Mapping[int, Any]) -> None:
    """Notice that workers have seen other records than were counted first, or in another order."""
    wrong = {note["wrong"] for note in said.values()} - {None}
    if wrong == {SAME}:
        raise SameOrderError("two records of a partition have the same place")
    seen = {part: note["records"] for part, note in said.items() if note["records"]}
    counted = {part: sum(stretches[i].records for i in indices) for part, indices in places.items()}
    if wrong or seen != counted:
        raise ShuffledError("the frame is not what it was when it was counted")


def _raise_first(said: Sequence[Mapping[str, Any]], stretches: Sequence[Stretch], placed: Placed) -> None:
    """Refuse the batch for the bad row that comes first, and say where that is."""
    wrong = [note["error"] for note in said if note["error"]]
    if not wrong:
        return
    error = min(wrong, key=lambda one: (one["stretch"], -1 if one["row"] is None else one["row"]))
    one = stretches[error["stretch"]]
    if not placed.order:
        where = f"partition {one.part} of the data frame"
    elif not placed.sortable:
        where = one.source[0] + (f" from byte {one.first:,} on" if one.first else "")
    else:
        where = ", ".join(map(str, [*one.source, f"from {one.first} on"]))
    raise with_way_out(retold(error).at(file=where))


def _settings(placed: Placed) -> dict[str, str]:
    """Files are cut alike in both readings, also if executors come or go between them; and records go to Python fast.

    Spark looks at the size of a batch for Python after every record, which takes longer than all the rest of the way.
    Where all columns have a fixed size, the number of records bounds it.
    """
    session = placed.frame.sparkSession
    found = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(_ARROW_RECORDS)}
    if session.conf.get(_LEAVES, None) is None:
        found[_LEAVES] = str(session.sparkContext.defaultParallelism)
    if all(kind in _FIXED for name, kind in placed.frame.dtypes if name in placed.columns) and not placed.key:
        found["spark.sql.execution.arrow.maxBytesPerBatch"] = str((1 << 31) - 1)
    return found


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """A frame that is computed once, and kept by executors for a while."""
    from pyspark import StorageLevel

    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
