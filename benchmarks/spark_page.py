"""The page of the benchmark of Spark, and the constants that `docs/scale.md` is computed from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headwater.markdown import table
from headwater.mechanisms.cascade.plan import stage_at
from headwater.privacy import Budget

OUT = Path(__file__).parents[1] / "docs/benchmarks"


def write_page(result: dict[str, Any]) -> None:
    """Write ``spark.json`` and ``spark.md``.

    Parameters
    ----------
    result
        What `benchmarks.spark` has measured.
    """
    (OUT / "spark.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (OUT / "spark.md").write_text(page(result), encoding="utf-8")


def page(result: dict[str, Any]) -> str:
    """The page in Markdown.

    Parameters
    ----------
    result
        As for `write_page`.
    """
    rates = [
        [
            one["case"],
            f"{one['cells']:,}",
            f"{one['records'] / one['plain'] / 1e6:.2f}",
            f"{one['records'] / one['executors'] / 1e6:.2f}",
            f"{one['plain'] / one['executors']:.2f}",
            f"{one['driver']:.1f} of {one['driver'] + one['executors']:.1f}",
            f"{one['driver'] / (one['driver'] + one['executors']):.2f}",
        ]
        for one in result["compared"]
    ]
    reached = [
        [
            one["case"],
            f"{one['records']:,}",
            f"{one['codes']:,}",
            f"{one['buckets']:,}",
            f"{one['bytes'] / 1e6:,.2f}",
            f"{one['bytes'] / one['records']:.3f}",
        ]
        for one in result["reached"]
    ]
    records = f"{result['compared'][0]['records']:,}"
    head = ["data", "cells", "plain", "Headwater", "ratio", "driver, of all seconds", "share"]
    cores, epsilon = result["cores"], result["epsilon"]
    note = f" {result['note']}" if "note" in result else ""
    return (
        f"# Spark\n\n`make bench-spark` on {cores} cores: a standalone cluster of one master and two workers, and a "
        f"driver of its own; ε = {epsilon:g}. All times are processor times, so other work counts little.{note}\n\n"
        f'## Beside plain Spark\n\n{records} records of Parquet. *Plain* is `groupBy("cell").count()` with the finest '
        "cell of every record given as a column. Headwater reads the columns, numbers the records, encodes them and "
        "counts by bucket. Million records a second for each core.\n\n"
        f"{table(head, rates, 'lr')}\n"
        f"Wanted are a ratio of at least 0.5, which holds in {_holding(result, 'ratio')}, and a driver's share below "
        f"0.1, which holds in {_holding(result, 'share')}. Where records repeat (places, table), Spark's generated "
        "code counts them, and the rest of the time goes into reading more columns than one and finding buckets. Where "
        "they hardly repeat, they go to Python: two columns on that way take 0.18 µs a record. Of the driver's time "
        "some 0.2 s are of Python where there are few codes, and the rest is Java's, planning and handing out tasks "
        "whatever the number of records: the less executors take, the larger is its share. Where every record has a "
        "code of its own, the driver measures 10^7 codes, about 0.1 µs each.\n\n"
        "## What reaches the driver\n\nOne batch of a run in the plane, from record 0 on.\n\n"
        f"{table(['data', 'records', 'codes', 'buckets', 'MB', 'bytes a record'], reached, 'lr')}\n"
        "A code is a cell of a bucket that occurs. Where places repeat, codes grow with the number of buckets; where "
        "every record has a cell of its own, there are as many codes as records. Bytes are as workers pack "
        "codes; from generated code up to four codes come in a group of 24 bytes. Batches larger than those of the "
        "first table were counted in one process, as workers count.\n\n"
        "## How far one owner carries\n\nComputed from the constants above for a run in the plane: executors need the "
        "same time for every record, the owner for every code, and the state holds the codes of the open slow bucket, "
        "of five bytes each.\n\n"
        f"{table(['data', 'records', 'executors, core hours', 'owner, hours', 'state, GB'], far(result), 'lr')}"
    )


def _holding(result: dict[str, Any], what: str) -> str:
    every = result["compared"]
    if what == "ratio":
        good = sum(one["plain"] >= 0.5 * one["executors"] for one in every)
    else:
        good = sum(one["driver"] < 0.1 * (one["driver"] + one["executors"]) for one in every)
    return f"{good} of {len(every)} cases"


def far(result: dict[str, Any]) -> list[list[str]]:
    """What the first 10^10 and 10^12 records take, from what a record and a code took.

    Parameters
    ----------
    result
        As for `write_page`.
    """
    cases = {one["case"]: one for one in result["compared"]}
    found = list[list[str]]()
    for case, places in (("1,000 places", 1000), ("uniform", 1 << 32)):
        one = cases[case]
        first, last = one["t"] - one["records"], one["t"]
        codes_then = min(places * (_buckets(last) - _buckets(first)), one["records"])
        for records in (10**10, 10**12):
            size, siblings = _open_bucket(records)
            codes = min(places * _buckets(records), records)
            kept = min(places * siblings, size)
            found.append(
                [
                    case,
                    f"10^{len(str(records)) - 1}",
                    f"{records * one['executors'] / one['records'] / 3600:,.1f}",
                    f"{codes * one['driver'] / codes_then / 3600:,.2f}",
                    f"{5 * kept / 1e9:,.3f}",
                ]
            )
    return found


def _buckets(records: int) -> int:
    """How many fastest buckets there are until so many records have arrived."""
    t = found = 0
    while t < records:
        stage = stage_at(t, 2, Budget.of(1.0))
        end = min(stage.end, records)
        found, t = found + -(-(end - t) // stage.timescales[-1].size), end
    return found


def _open_bucket(records: int) -> tuple[int, int]:
    """The size of the slow bucket at some time, and in how many sums its counts are kept at most."""
    stage = stage_at(records - 1, 2, Budget.of(1.0))
    return stage.timescales[0].size, sum(scale.siblings for scale in stage.timescales[1:]) + 2
