"""The page of the benchmark of Spark, and the constants that `docs/scale.md` is computed from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headwater.markdown import table

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
    return (
        f"# Spark\n\n`make bench-spark` on {cores} cores: a standalone cluster of one master and two workers, and a "
        f"driver of its own; ε = {epsilon:g}. All times are processor times, so other work counts little.\n\n"
        f'## Beside plain Spark\n\n{records} records of Parquet. *Plain* is `groupBy("cell").count()` with the finest '
        "cell of every record given as a column. Headwater reads the columns, numbers the records, encodes them and "
        "counts by bucket. Million records a second for each core.\n\n"
        f"{table(head, rates, 'lr')}\n"
        "Wanted are a ratio of at least 0.5 and a driver's share below 0.1. The ratio depends on the number of cells, "
        "since plain Spark is fastest where there are few: there the way of two columns from Java to Python alone "
        "takes longer than all that plain Spark does. The share depends on the number of codes.\n\n"
        "## What reaches the driver\n\nOne batch of a run in the plane, from record 0 on.\n\n"
        f"{table(['data', 'records', 'codes', 'buckets', 'MB', 'bytes a record'], reached, 'lr')}\n"
        "A code is a cell of a bucket that occurs. Where places repeat, codes grow with the number of buckets; where "
        "every record has a cell of its own, there are as many codes as records.\n"
    )
