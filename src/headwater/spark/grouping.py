"""Counts of a frame without a way to Python: Spark groups records by bucket and symbols, in generated code.

It is quick where records repeat, and slow where they hardly do. Which way is taken is guessed from the first records of
a frame; both give the same counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.mechanisms.counted import BucketedCounts
from headwater.spark.pieces import MOST, Pieces
from headwater.spark.places import ShuffledError, Stretch
from headwater.spark.symbols import Symbols
from headwater.synthesizer import Synthesizer
from headwater.table.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAMPLE = 2048
_FEWER = 2  # so many times fewer different records than records in a group of buckets are worth it
_MAP_BITS = "spark.sql.codegen.aggregate.fastHashMap.capacityBit"


def grouped(
    frame: DataFrame, symbols: Symbols, synth: Synthesizer, stretches: Sequence[Stretch], numbers: Sequence[int]
) -> tuple[BucketedCounts, Tally] | None:
    """The counts of all records of a frame; None if Spark cannot find them by itself, or not quickly.

    Parameters
    ----------
    frame
        With the columns of the symbols.
    symbols
        Of its columns.
    synth
        Encodes.
    stretches
        Of the frame, in order.
    numbers
        Of the first record of each.
    """
    end = numbers[-1] + stretches[-1].records
    pieces = Pieces.of(stretches, numbers, synth.buckets(numbers[0], end))
    if pieces.longest > MOST or not _repeats(frame, symbols, pieces):
        return None
    words = [f"word{number}" for number in range(len(symbols.words))]
    with _large_map(frame.sparkSession):
        table = pieces.expressions(frame, symbols.expressions()).groupBy("group", *words).sum("one").toArrow()
    if any(table.column(name).null_count for name in words):
        return None  # a record that only Python can read, or say what is wrong with
    groups, totals = (table.column(name).to_numpy() for name in ("group", "sum(one)"))
    if table.column("group").null_count or (groups < 0).any():
        raise ShuffledError("there are more records than were counted first")
    entries, buckets, counts = pieces.counted(groups, totals)
    if not np.array_equal(np.bincount(buckets, counts, len(pieces.starts)).astype(np.int64), pieces.expected()):
        raise ShuffledError("there are other records than were counted first")
    found = [table.column(name).to_numpy() for name in words]
    points, tally = symbols.decode(found, np.bincount(entries, counts, len(groups)).astype(np.int64))
    order = np.argsort(buckets.astype(np.uint16 if len(pieces.starts) < 1 << 16 else np.int64), kind="stable")
    starts, rows = pieces.starts[buckets[order]], synth.encode_points(points)[entries[order]]
    return BucketedCounts(starts, synth.coarser(rows, starts), counts[order]), tally


def _repeats(frame: DataFrame, symbols: Symbols, pieces: Pieces) -> bool:
    """Whether the first records are few different ones, beside how many share a group of buckets.

    Of as many pairs of records one is equal as there are different ones, if these are equally frequent; and if most of
    them were seen, there are not many more.
    """
    share = pieces.lanes[0] * max(piece.size for piece in pieces.pieces if piece.records)
    first = frame.select(*(word.alias(f"word{i}") for i, word in enumerate(symbols.expressions()))).take(SAMPLE)
    different = set(map(tuple, first))
    if any(None in row for row in different):
        return False
    equal = len(first) - len(different)
    likely = 2.0 * len(different)
    if equal < len(different):
        likely = len(first) ** 2 / (2 * equal) if equal else math.inf
    return _FEWER * likely <= share


@contextmanager
def _large_map(session: SparkSession) -> Iterator[None]:
    """Room for a million groups in the table that generated code counts in; what does not fit takes much longer."""
    before: Any = session.conf.get(_MAP_BITS, None)
    session.conf.set(_MAP_BITS, "20")
    try:
        yield
    finally:
        session.conf.unset(_MAP_BITS) if before is None else session.conf.set(_MAP_BITS, before)
