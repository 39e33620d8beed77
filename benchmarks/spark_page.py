"""The page of the benchmark of Spark, and the constants that `docs/scale.md` is computed from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headwater.markdown import table
from headwater.public.budget import Budget
from headwater.public.cascade.plan import stage_at

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
    every = result["compared"]
    rates = [
        [
            one["case"],
            f"{one['cells']:,}",
            f"{one['records'] / one['plain']['executors'] / 1e6:.2f}",
            f"{one['records'] / one['ours']['executors'] / 1e6:.2f}",
            f"{_ratio(one):.2f}",
            f"{one['plain_first']['executors'] / one['ours_first']['executors']:.2f}",
        ]
        for one in every
    ]
    drivers = [
        [
            one["case"],
            *(f"{_driver(one[side]):.2f}" for side in ("plain", "ours")),
            f"{one['ours']['python']:.2f}",
            f"{one['ours']['java']:.2f}",
            f"{_owner(one['ours']):.2f}",
            *(f"{_share(one[side]):.2f}" for side in ("plain", "ours")),
            *(f"{one[side]['wall']:.1f}" for side in ("plain", "ours")),
            *(f"{_driver(one[side]):.1f}" for side in ("plain_first", "ours_first")),
        ]
        for one in every
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
    head = ["data", "cells", "plain", "Headwater", "ratio", "ratio of the first batches"]
    of_driver = ["data", "plain", "Headwater", "the owner's own", "Spark's planning", "share, owner"]
    of_driver += ["share, plain", "share, Headwater"]
    of_driver += ["plain, wall", "Headwater, wall", "first, plain", "first, Headwater"]
    cores, epsilon = result["cores"], result["epsilon"]
    half, tenth = sum(_ratio(one) >= 0.5 for one in every), sum(_share(one["ours"]) < 0.1 for one in every)
    plain = sum(_share(one["plain"]) < 0.1 for one in every)
    own = [one["case"] for one in every if _owner(one["ours"]) < 0.1]
    note = f" {result['note']}" if "note" in result else ""
    return (
        f"# Spark\n\n`make bench-spark` on {cores} cores: a standalone cluster of one master and two workers, and a "
        f"driver of its own; ε = {epsilon:g}. Times are processor times unless they are called wall, so that other "
        f"work counts less.{note}\n\n"
        f'## Beside plain Spark\n\n{records} records of Parquet. *Plain* is `groupBy("cell").count()`, collected, with '
        "the finest cell of every record given as a column. Headwater reads the columns, numbers the records, encodes "
        f"them and counts by bucket (`update`). Both in turns, {result['rounds']} times: what is judged is the steady "
        f"state of a stream, medians of the last {result['steady']} micro-batches, since Java compiles for minutes. "
        "Million records a second for each core of executors.\n\n"
        f"{table(head, rates, 'lr')}\n"
        f"Wanted is a ratio of at least 0.5; it is reached in {half} of {len(every)} cases. Workers see these files "
        "under their paths and read them; no record goes through Spark. Of files that only Spark reaches, such as "
        "those of an object store, generated code counts records that repeat, and others go to Python one by one: "
        "there the ratios were 0.76, 0.49, 3.41 and 0.41 ([parts](../decisions/spark.md)).\n\n"
        "## The driver\n\nSeconds for one micro-batch, and their share of all processor time.\n\n"
        f"{table(of_driver, drivers, 'lr')}\n"
        f"Wanted is a share of all of the driver's time below 0.1; it is reached in {tenth} of {len(every)} cases, and "
        f"by plain Spark itself in {plain}: planning one query, compiling and handing out its tasks take it as long as "
        "the column *plain* says, whatever the number of records, and 10^7 records that repeat take executors less "
        "than ten times that. Headwater reads the footers of files, plans one query more for that and a longer one for "
        "the counts: *Spark's planning*, the time of the driver's Java machine. *The owner's own* part, adding counts "
        f"and measuring, is the time of its Python. Its share is below 0.1 in {len(own)} of {len(every)} cases"
        f"{' (' + ', '.join(own) + ')' if own else ''}. Where every record has a code of its own, as many codes are "
        "checked and summed into the leaves of trees, which are many as well, so there the owner is what a run on many "
        "executors ends at.\n\n"
        f"{_by_size(result)}"
        "## What reaches the driver\n\nOne batch of a run in the plane, from record 0 on.\n\n"
        f"{table(['data', 'records', 'codes', 'buckets', 'MB', 'bytes a record'], reached, 'lr')}\n"
        "A code is a cell of a bucket that occurs. Where places repeat, codes grow with the number of buckets; where "
        "nearly every record of a bucket has a cell of its own, there are as many codes as records. Bytes are as "
        "workers pack codes; from generated code one has 16 bytes. No release is due inside a batch, so buckets are "
        "those that are measured when it is taken at once; with releases inside all fastest ones are. Clusters, and "
        "batches "
        "larger than those of the first table, were counted in one process, as workers count.\n\n"
        "## How far one owner carries\n\nComputed from the constants above for a run in the plane, in micro-batches as "
        "large as the measured ones: executors and the driver need the same time for each, and the state holds the "
        "codes of the open slow bucket, of five bytes each.\n\n"
        f"{table(['data', 'records', 'executors, core hours', 'driver, hours', 'state, GB'], far(result), 'lr')}"
    )


def _by_size(result: dict[str, Any]) -> str:
    """The driver's part in micro-batches of several sizes, as a table and in words."""
    rows = [
        [
            one["case"],
            f"{one['records']:,}",
            f"{one['python']:.3f}",
            f"{one['python'] / one['records'] * 1e9:.0f}",
            f"{one['java']:.2f}",
            f"{one['executors']:.2f}",
            f"{_owner(one):.2f}",
            f"{_share(one):.2f}",
        ]
        for one in result["sizes"]
    ]
    head = ["data", "records", "the owner's own", "ns a record", "Spark's planning", "executors"]
    below = sum(_share(one) < 0.1 for one in result["sizes"])
    return (
        "### By the size of a micro-batch\n\nSeconds for one micro-batch, in the mean of all from record 10^8 up to "
        "1.6·10^8 of a run. Slow buckets close in some of them only, and closing takes the owner as long as all else, "
        "so means say more here than medians.\n\n"
        f"{table([*head, 'share, owner', 'share, driver'], rows, 'lr')}\n"
        f"The share of all of the driver's time is below 0.1 in {below} of {len(result['sizes'])} of these. Let "
        "micro-batches be large: the time for planning hardly grows with them, nor, where records repeat, do the "
        "codes. Where records are all different, what the owner has to do for each of them stays the same, and so does "
        "its own share. Every micro-batch of a run has the same records here, so in those of 10^6 each comes a hundred "
        "times, which makes trees deep and closing slow.\n\n"
    )


def _ratio(one: dict[str, Any]) -> float:
    return float(one["plain"]["executors"] / one["ours"]["executors"])


def _driver(side: dict[str, float]) -> float:
    return side["python"] + side["java"]


def _share(side: dict[str, float]) -> float:
    return _driver(side) / (_driver(side) + side["executors"])


def _owner(side: dict[str, float]) -> float:
    return side["python"] / (_driver(side) + side["executors"])


def far(result: dict[str, Any]) -> list[list[str]]:
    """What the first 10^10 and 10^12 records take, in micro-batches as large as the measured ones.

    Parameters
    ----------
    result
        As for `write_page`.
    """
    cases = {one["case"]: one for one in result["compared"]}
    found = list[list[str]]()
    for case, places in (("1,000 places", 1000), ("uniform", 1 << 32)):
        one = cases[case]
        for records in (10**10, 10**12):
            size, siblings = _open_bucket(records)
            kept = min(places * siblings, size)
            found.append(
                [
                    case,
                    f"10^{len(str(records)) - 1}",
                    f"{records * one['ours']['executors'] / one['records'] / 3600:,.1f}",
                    f"{records * _driver(one['ours']) / one['records'] / 3600:,.2f}",
                    f"{5 * kept / 1e9:,.3f}",
                ]
            )
    return found


def _open_bucket(records: int) -> tuple[int, int]:
    """The size of the slow bucket at some time, and in how many sums its counts are kept at most."""
    stage = stage_at(records - 1, 2, Budget.of(1.0))
    return stage.timescales[0].size, sum(scale.siblings for scale in stage.timescales[1:]) + 2
