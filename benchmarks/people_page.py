"""The page of the benchmark of people, made from its numbers alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import mean
from typing import Any

from benchmarks.pages import Figure, judged, number, picture, table

KINDS = {
    "plane": "two numbers (cascade)",
    "wide": "eight columns (marginals)",
    "visits": "visits, six columns",
    "survey": "survey, twenty columns",
}
MEASURES = {"error": "two-way", "one_way": "one-way", "mean": "mean of both"}
TAILS = {"heavy": "heavy tail", "middle": "middle tail", "lighter": "lighter tail"}
TAILS |= {power: f"*n*^−{power}" for power in ("1.35", "1.65")}
OTHERS = ("visits", "survey")
Curves = dict[tuple[str, str, str], dict[int, float]]


def errors_of(run: dict[str, Any]) -> dict[str, float]:
    """By measure; the mean of both where there are two."""
    found = {measure: run[measure] for measure in ("error", "one_way") if run[measure] is not None}
    return found | ({"mean": mean(found.values())} if len(found) > 1 else {})


def curves(found: dict[str, Any], records: int) -> Curves:
    """Mean errors by table, tail and measure, then by cap; of pure ε."""
    values: dict[tuple[str, str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in found["runs"]:
        if run["records"] == records and not run.get("delta"):
            for measure, error in errors_of(run).items():
                values[run["table"], run["tail"], measure][run["cap"]].append(error)
    return {key: {cap: mean(by_cap[cap]) for cap in sorted(by_cap)} for key, by_cap in sorted(values.items())}


def name(key: tuple[str, str, str]) -> str:
    kind, tail, measure = key
    return f"{KINDS[kind]}, {'W1' if kind == 'plane' else MEASURES[measure]}, {TAILS[tail]}"


def figures(found: dict[str, Any]) -> list[Figure]:
    """How far the error under a suggested cap is from the best, and that of running with ε/1,000 and no cap from it."""
    asked = []
    for records in map(int, found["suggested"]):
        by_key, suggested = curves(found, records), found["suggested"][str(records)]
        own = {key: caps[suggested[" ".join(key)]] for key, caps in by_key.items()}
        best = {name(key): own[key] / min(caps.values()) for key, caps in by_key.items()}
        uncapped = {name(key): caps[max(caps)] / own[key] for key, caps in by_key.items()}
        both = {
            name((kind, tail, measure)): caps[suggested[f"{kind} {tail} mean"]] / min(caps.values())
            for (kind, tail, measure), caps in by_key.items()
            if kind != "plane" and measure != "mean"
        }
        asked.append(Figure(f"{records:,} records: error under the suggested cap / the best cap", best, at_most=1.2))
        asked.append(Figure(f"{records:,} records: one cap for the mean, by each measure / the best cap", both))
        asked.append(Figure(f"{records:,} records: ε/1,000 and no cap / the suggested cap", uncapped, at_least=1))
    return asked


def buckets(found: dict[str, Any]) -> str:
    """A cap for buckets, with a δ, beside pure ε."""
    first = next(run for run in found["runs"] if run.get("delta"))
    rows: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for run in found["runs"]:
        if (run["cap"], run["tail"], run["records"]) == (first["cap"], "heavy", first["records"]):
            bucket = f"{run['per_bucket']} a bucket" if run.get("per_bucket") else "no cap for buckets"
            rows[f"δ = {run['delta']:g}, {bucket}" if run.get("delta") else "pure ε"][run["table"]].append(run)

    def cells(runs: Iterable[dict[str, Any]], measures: Iterable[str]) -> list[str]:
        runs = list(runs)
        errors = [number(mean(errors_of(run)[measure] for run in runs)) for measure in measures]
        return [f"{mean(run['capped'] for run in runs):.0%}", *errors]

    lines = [
        [how, *cells(by["plane"], ["error"]), *cells(by["wide"], ["error", "one_way"])] for how, by in rows.items()
    ]
    head = [f"{first['cap']} records count", "left out", "two numbers, W1"]
    return table([*head, "left out", "eight columns, two-way", "one-way"], lines, "lr")


def memory(found: dict[str, float]) -> str:
    """What the table of people takes."""
    people, size = found["people"], found["state"]
    return f"""
## Memory

`headwater run` with one record of each of {people:,.0f} people takes {1e6 * found["run"] / people:.2f} µs of the
processor a record; its state has {size / people:.1f} bytes a person ({size / 1e6:,.0f} MB), and to go on from it takes
{found["resumed"]:.1f} s.
"""


def page(found: dict[str, Any]) -> str:
    """The page in Markdown."""
    seeds = len({run["seed"] for run in found["runs"]})
    return f"""# How many records of a person should count

{judged(figures(found))}
![Error against the cap](people.png)

The picture is of the most records. Pairs of columns are best with a smaller cap than single ones.

## How it was measured

People are made up: each has 1 to 1,000 records, with probability *n*^−1.2 (heavy tail), *n*^−1.5 (middle) or *n*^−1.8
(lighter) of having *n* or more, in random order. Everyone has habits, and those of people with many records differ.
ε = 1 is for a **person**: with a cap of `k` the first `k` records of a person count, and noise has `k` times the scale.
Running with ε/1,000 and no cap gives the same promise if nobody has more than 1,000. Means of up to {seeds} seeds.

`headwater.suggest_records_per_person` knows the law of the number of records, the schema, ε and `t`, nothing of the
data. Its constants were chosen by other seeds with the heavy and the lighter tail in view; the 60,000 records are of
other tables and tails (`benchmarks/people_tables.py`). All errors are in `people.json`, by `make bench-people`.

## A second cap, for buckets

With δ > 0 a person's records cost the sum of the squares of their numbers in buckets, so `per_bucket` lowers the noise,
and leaves out more. Heavy tail:

{buckets(found)}{memory(found["memory"]) if "memory" in found else ""}"""


def draw(found: dict[str, Any]) -> None:
    """Errors against the cap; the suggested cap is marked."""
    records = max(map(int, found["suggested"]))
    by_key, suggested = curves(found, records), found["suggested"][str(records)]
    rows = -(-len(by_key) // 3)
    with picture("people", rows, 3, (11, 2.9 * rows)) as axes:
        for axis, (key, caps) in zip(axes.flat, by_key.items(), strict=False):
            axis.loglog([*caps], [*caps.values()], "o-", color="#2f6fb3", ms=4, label="error (right end: ε/1,000)")
            axis.axvline(suggested[" ".join(key)], color="#c8442f", ls="--", label="suggested cap")
            least = min(caps.values())
            axis.axhspan(least, 1.2 * least, color="#c9d2dc", alpha=0.5, lw=0, label="within 20 % of the best")
            axis.set_title(name(key).replace("), ", ")\n", 1), fontsize=9)
            axis.set(xlabel="records of a person that count", ylabel="error")
