"""Counts of a frame without a way to Python: Spark groups records by bucket and symbols, in generated code.

It is quick where records repeat, and slow where they hardly do. Which way is taken is guessed, from the micro-batch
before or from the first records of a frame; both give the same counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.tally import Tally
from headwater.secret.counts import BucketedCounts, CountedParts
from headwater.spark.pieces import MOST, Pieces
from headwater.spark.places import ShuffledError, Stretch
from headwater.spark.session import with_settings
from headwater.spark.symbols import Symbols
from headwater.synthesizer import Synthesizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLE = 2048
_WORD = 62  # bits of a key, so that none is below 0
_FOLDS = (15, 17, 34)
_FEWER = 16  # so many times fewer groups than records are worth it: about where Python takes as long
_SETTINGS = {
    # Room for a million groups in the table that generated code counts in; what does not fit takes much longer.
    "spark.sql.codegen.aggregate.fastHashMap.capacityBit": "20",
    # Arithmetic that never raises: what Spark raises has the value in it, and ends up in its logs.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.adaptive.enabled": "false",  # there is nothing to plan anew
}


@dataclass
class Repeats:
    """How often the records of a micro-batch repeated, by which the next one is counted.

    Parameters
    ----------
    codes
        Different rows of a bucket for each record of the last micro-batch; None before the first.
    readable
        Whether workers found files as Spark described them, so far.
    """

    codes: float | None = None
    readable: bool = True

    def after(self, counts: CountedParts | None, tally: Tally) -> None:
        """Look at what was counted. Values that Spark has no symbol for may come again.

        Parameters
        ----------
        counts
            Of all records; None if there are none, or if they were not counted.
        tally
            Of the same ones.
        """
        if counts is not None and counts.codes:
            odd = tally.bad or any("unlisted" in kinds for kinds in tally.columns.values())
            self.codes = math.inf if odd else counts.codes / counts.records

    @property
    def few(self) -> bool | None:
        """Whether there would be half as many groups as records, or fewer; None before the first batch."""
        return None if self.codes is None else self.codes * _FEWER <= 1


def grouped(
    frame: DataFrame,
    symbols: Symbols,
    synth: Synthesizer,
    stretches: Sequence[Stretch],
    numbers: Sequence[int],
    until: int | None,
    repeats: Repeats,
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
    until
        As for `headwater.Synthesizer.histogram`.
    repeats
        How often records repeated before.
    """
    end = numbers[-1] + stretches[-1].records
    pieces = Pieces.of(stretches, numbers, synth.buckets(numbers[0], end, until))
    with with_settings(frame.sparkSession, _SETTINGS):
        if pieces.longest > MOST or not _worth(frame, symbols, pieces, repeats):
            return None
        fits = symbols.bits[-1] + len(pieces.starts).bit_length() <= _WORD
        keys = [f"key{number}" for number in range(len(symbols.words) + (not fits))]
        table = _partial(_keyed(frame, symbols, pieces, fits).groupBy(*keys).count()).toArrow()
    if any(table.column(name).null_count for name in keys):
        return None  # a record that only Python can read, or say what is wrong with
    words = [_unfolded(table.column(name).to_numpy()) for name in keys]
    buckets, counts = words[-1] >> (symbols.bits[-1] if fits else 0), table.column(len(keys)).to_numpy()
    if fits:
        words[-1] = words[-1] & ((1 << symbols.bits[-1]) - 1)
    if not np.array_equal(np.bincount(buckets, counts, len(pieces.starts) + 1).astype(np.int64), pieces.expected()):
        raise ShuffledError("there are other records than were counted first")
    points, tally = symbols.decode(words[: len(symbols.words)], counts)
    order = np.argsort(buckets.astype(np.uint16 if len(pieces.starts) < 1 << 16 else np.int64), kind="stable")
    starts, rows = pieces.starts[buckets[order]], synth.encode_points(points)[order]
    return BucketedCounts(starts, synth.coarser(rows, starts), counts[order], until), tally


def _worth(frame: DataFrame, symbols: Symbols, pieces: Pieces, repeats: Repeats) -> bool:
    """Whether groups are few beside records."""
    few = repeats.few
    return _FEWER * _different(frame, symbols) <= int(pieces.expected().max()) if few is None else few


def _different(frame: DataFrame, symbols: Symbols) -> float:
    """About how many different records there are, from the first ones.

    Of as many pairs of records one is equal as there are different ones, if these are equally frequent; and if most of
    them were seen, there are not many more. Infinitely many if there is one that only Python can read.
    """
    first = frame.selectExpr(*(f"{word} AS word{i}" for i, word in enumerate(symbols.expressions()))).take(SAMPLE)
    different = set(map(tuple, first))
    equal = len(first) - len(different)
    if any(None in row for row in different) or not equal:
        return math.inf
    return 2.0 * len(different) if equal >= len(different) else len(first) ** 2 / (2 * equal)


def _keyed(frame: DataFrame, symbols: Symbols, pieces: Pieces, fits: bool) -> DataFrame:
    """Words as keys of a group, the last of them with its bucket if both fit.

    Spark's table for generated code takes the lowest bits of keys for a hash and gives up after two places, so that
    keys which are alike in them take much longer. So higher bits are added to them, such that neighbours stay
    neighbours, which are often used together; `_unfolded` undoes it.

    Every ``select`` is analysed by itself, which takes the driver longer than the expressions do: here are two.
    """
    words = [f"word{number}" for number in range(len(symbols.words))]
    named = [f"{word} AS {name}" for name, word in zip(words, symbols.expressions(), strict=True)]
    rows = frame.selectExpr(*named, "monotonically_increasing_id() AS row")
    whole = [*words[:-1], f"{words[-1]} | shiftleft(bucket, {symbols.bits[-1]})"] if fits else [*words, "bucket"]
    folded = [
        " ^ ".join([f"whole{i}", *(f"shiftrightunsigned(whole{i}, {fold})" for fold in _FOLDS)])
        for i in range(len(whole))
    ]
    keys = [f"{key} AS whole{i}" for i, key in enumerate(whole)] + [f"{key} AS key{i}" for i, key in enumerate(folded)]
    return rows.selectExpr(*pieces.expressions(), *keys)


def _unfolded(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """What `_keyed` was given: each step finds 15 bits more, from the highest on."""
    folded = found = keys.view(np.uint64)
    for _ in range(4):
        found = np.bitwise_xor.reduce([folded, *(found >> np.uint64(fold) for fold in _FOLDS)])
    return found.view(np.int64)


def _partial(frame: DataFrame) -> DataFrame:
    """What every task has counted for itself, if Spark's plan shows how: the driver adds up what several tasks share.

    Few groups are shared, since a bucket is a run of records; so exchanging groups between executors saves nothing.
    """
    from pyspark.sql import DataFrame as Classic

    try:
        step: Any = frame._jdf.queryExecution().executedPlan()
        while step.getClass().getSimpleName() != "ShuffleExchangeExec":
            step = step.child()
        one, java = step.child(), frame.sparkSession._jsparkSession
        return Classic(java.internalCreateDataFrame(one.execute(), one.schema(), False), frame.sparkSession)
    except Exception:  # of Java, whatever a version of Spark plans: then it adds up
        return frame
