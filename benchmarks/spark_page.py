"""The page of the benchmark of Spark, and the constants that `docs/scale.md` is computed from."""

from __future__ import annotations

from typing import Any

from benchmarks.pages import Figure, judged, table
from headwater.public.budget import Budget
from headwater.public.cascade.plan import stage_at

ROUNDS, STEADY = 16, 6  # of both sides in turns; medians of the last ones are judged


def driver(side: dict[str, float]) -> float:
    """Seconds of the driver: its Python and its Java machine."""
    return side["python"] + side["java"]


def share(side: dict[str, float]) -> float:
    """Of the driver in all processor time."""
    return driver(side) / (driver(side) + side["executors"])


def figures(found: dict[str, Any]) -> list[Figure]:
    """What is asked."""
    ours = {one["case"]: one["ours"] for one in found["compared"]}
    steady = {one["case"]: one["plain"]["executors"] / one["ours"]["executors"] for one in found["compared"]}
    return [
        Figure("records a core second of executors, Headwater / plain Spark", steady, "×", at_least=0.5),
        Figure("share of the owner's own part in all work", {c: _own(one) for c, one in ours.items()}, at_most=0.1),
        Figure("share of the whole driver", {c: share(one) for c, one in ours.items()}, at_most=0.1, goal=True),
        Figure("of plain Spark's driver", {one["case"]: share(one["plain"]) for one in found["compared"]}),
    ]


def _own(side: dict[str, float]) -> float:
    return side["python"] / (driver(side) + side["executors"])


def page(found: dict[str, Any]) -> str:
    """The page in Markdown."""
    compared = [
        [
            one["case"],
            *(f"{one['records'] / one[side]['executors'] / 1e6:.2f}" for side in ("plain", "ours")),
            *(f"{driver(one[side]):.2f}" for side in ("plain", "ours")),
            f"{one['ours']['python']:.2f}",
            *(f"{one[side]['wall']:.1f}" for side in ("plain", "ours")),
        ]
        for one in found["compared"]
    ]
    reached = [
        [one["case"], f"{one['records']:,}", f"{one['codes']:,}", f"{one['bytes'] / 1e6:,.1f}"]
        for one in found["reached"]
        if one["records"] in (10**6, 10**8)
    ]
    head = ["data", "plain, million/s", "Headwater", "plain, driver", "Headwater", "its owner", "plain, wall"]
    return f"""# Spark

{judged(figures(found))}
{found["compared"][0]["records"]:,} records of Parquet. *Plain* is `groupBy("cell").count()`, collected, with the finest
cell of every record given as a column. Headwater (`update`) numbers the records, encodes them and
counts by bucket; workers read the files. Million records for a core second of executors, and
seconds of the driver for one micro-batch:

{table([*head, "Headwater"], compared, "lr")}
Both in turns, {ROUNDS} times; medians of the last {STEADY}, since Java compiles for minutes. Times are of the processor
but for the last two columns. A standalone cluster of two workers and a driver, on {found["cores"]} cores.
{found.get("note", "")}

*The driver* plans queries, whatever the number of records; *its owner* is what Headwater adds in Python: summing counts
and measuring.

## What reaches the driver

For one batch of a run in the plane. A code is a cell of a bucket in which records occur.

{table(["data", "records", "codes", "MB"], reached, "lr")}
## How far one owner carries

Computed from the numbers above; in the state are the codes of the open slow bucket, of five bytes each.

{table(["data", "records", "executors, core hours", "driver, hours", "state, GB"], far(found), "lr")}
Made by `make bench-spark`; all numbers are in `spark.json`.
"""


def far(found: dict[str, Any]) -> list[list[str]]:
    """What the first 10^10 and 10^12 records take, in micro-batches as large as the measured ones."""
    cases = {one["case"]: one for one in found["compared"]}
    rows = list[list[str]]()
    for case, places in (("1,000 places", 1000), ("uniform", 1 << 32)):
        one = cases[case]
        for power in (10, 12):
            stage = stage_at(10**power - 1, 2, Budget.of(1.0))
            sums = sum(scale.siblings for scale in stage.timescales[1:]) + 2  # in which counts of a bucket are kept
            state = 5 * min(places * sums, stage.timescales[0].size)
            hours = [
                10**power * side / one["records"] / 3600 for side in (one["ours"]["executors"], driver(one["ours"]))
            ]
            rows.append([case, f"10^{power}", f"{hours[0]:,.1f}", f"{hours[1]:,.2f}", f"{state / 1e9:,.3f}"])
    return rows
