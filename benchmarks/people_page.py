"""The page of the benchmark of people, made from its numbers alone.

python -m benchmarks.people_page
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks import people_pictures
from headwater.markdown import table

NAMES = {
    ("plane", "error"): "two numbers (cascade), W1",
    ("wide", "mean"): "eight columns (marginals), mean of one-way and two-way",
    ("wide", "error"): "eight columns (marginals), two-way",
    ("wide", "one_way"): "eight columns (marginals), one-way",
}
TAILS = {"heavy": "heavy tail", "middle": "middle tail", "lighter": "lighter tail"}
Curves = dict[tuple[str, str, str], dict[int, float]]


def plain(kept: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs of pure ε."""
    return [run for run in kept["runs"] if not run.get("delta")]


def curves(kept: dict[str, Any], records: int) -> Curves:
    """Mean errors by table, tail and measure, then by cap."""
    found: dict[tuple[str, str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in plain(kept):
        if run["records"] == records:
            errors = {measure: run[measure] for measure in ("error", "one_way") if run[measure] is not None}
            errors |= {"mean": mean(errors.values())} if len(errors) > 1 else {}
            for measure, error in errors.items():
                found[run["table"], run["tail"], measure][run["cap"]].append(error)
    order = [(kind, tail, measure) for kind, measure in NAMES for tail in TAILS if (kind, tail, measure) in found]
    return {key: {cap: mean(values) for cap, values in sorted(found[key].items())} for key in order}


def ratios(found: Curves, suggested: dict[str, int], purpose: str | None = None) -> dict[tuple[str, str, str], float]:
    """How much worse than the best cap the one is that was suggested for a measure, or for a purpose."""
    return {
        (kind, tail, measure): caps[suggested[f"{kind} {tail} {purpose or measure}"]] / min(caps.values())
        for (kind, tail, measure), caps in found.items()
        if purpose is None or kind == "wide"
    }


def verdicts(found: Curves, suggested: dict[str, int]) -> str:
    """The suggested cap beside the best one that was run, and beside ε/1,000 without a cap."""
    rows, worse = [], ratios(found, suggested)
    for key, caps in found.items():
        kind, tail, measure = key
        best, cap = min(caps, key=lambda cap: caps[cap]), suggested[f"{kind} {tail} {measure}"]
        label = [f"{NAMES[kind, measure]}, {TAILS[tail]}", f"{best:,}", f"{caps[best]:.4f}", f"{cap:,}"]
        label += [f"{caps[cap]:.4f}", f"{worse[key]:.2f}", "pass" if worse[key] <= 1.2 else "**miss**"]
        rows.append([*label, f"{caps[max(caps)]:.3f}", f"{caps[max(caps)] / caps[cap]:.1f}"])
    ends = [
        "best cap",
        "its error",
        "suggested",
        "its error",
        "ratio",
        "≤ 1.20",
        "ε/1,000, no cap",
        "worse than suggested",
    ]
    return table(["", *ends], rows)


def compromise(found: Curves, suggested: dict[str, int]) -> str:
    """What the cap for the mean costs those who look at one kind of table only."""
    of_mean = ratios(found, suggested, "mean")
    worst = {m: max(ratio for (_, _, measure), ratio in of_mean.items() if measure == m) for m in ("error", "one_way")}
    two_way, one_way = (f"at most {worst[measure]:.2f}" for measure in ("error", "one_way"))
    return f"two-way tables have {two_way} and one-way tables {one_way} times the error of their own best cap"


def every(found: Curves, kept: dict[str, Any], records: int) -> str:
    """All errors, by cap."""
    capped: dict[tuple[str, int], list[float]] = defaultdict(list)
    for run in plain(kept):
        if run["records"] == records:
            capped[run["tail"], run["cap"]].append(run["capped"])
    caps = sorted({cap for by_cap in found.values() for cap in by_cap})
    rows = []
    for cap in caps:
        shares = [f"{mean(capped[tail, cap]):.0%}" if capped[tail, cap] else "" for tail in TAILS]
        errors = [f"{by_cap[cap]:.4f}" if cap in by_cap else "" for by_cap in found.values()]
        rows.append([f"{cap:,}", *shares, *errors])
    heads = [f"{NAMES[kind, measure]}, {TAILS[tail]}" for kind, tail, measure in found]
    return table(["cap", *(f"capped, {TAILS[tail]}" for tail in TAILS), *heads], rows)


def buckets(kept: dict[str, Any]) -> str:
    """A cap for buckets, with a δ, beside pure ε."""
    with_delta = [run for run in kept["runs"] if run.get("delta")]
    cap = with_delta[0]["cap"]
    found: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for run in kept["runs"]:
        if run["cap"] == cap and run["tail"] == "heavy" and run["records"] == with_delta[0]["records"]:
            bucket = f"{run['per_bucket']} a bucket" if run.get("per_bucket") else "no cap for buckets"
            found["pure ε" if not run.get("delta") else f"δ = {run['delta']:g}, {bucket}"][run["table"]].append(run)
    rows = []
    for how, runs in found.items():
        plane, wide = (runs[name] for name in ("plane", "wide"))
        numbers = [mean(run["error"] for run in plane), mean(run["error"] for run in wide)]
        numbers.append(mean(run["one_way"] for run in wide))
        rows.append([how, *(f"{mean(run['capped'] for run in part):.0%}" for part in (plane, wide))])
        rows[-1] += [f"{number:.4f}" for number in numbers]
    heads = ["capped, two numbers", "capped, eight columns", *NAMES.values()]
    return table([f"{cap} records count", *heads], rows)


def memory(found: dict[str, float]) -> str:
    """What the table of people takes."""
    return f"""{found["people"]:,.0f} people with {found["records"]:,.0f} records in batches of {found["batch"]:,.0f}, a cap of {found["cap"]:.0f}:

- **{found["bytes_at_rest"] / found["people"]:.1f} bytes a person** in memory and in a saved state (16 of the hash, 1 of the count): {found["bytes_at_rest"] / 1e6:,.0f} MB;
  at most {found["bytes_at_most"] / found["people"]:.1f} between two merges of its sorted arrays, and {found["peak"] / found["people"]:.0f} for a moment while the largest ones are merged, beside the old ones which stay until the update is done.
- {found["seconds"] / found["records"] * 1e6:.2f} µs of one processor for a record: {found["hashing"] / found["records"] * 1e6:.2f} of them for its hash. One merge of all people took {found["longest"]:.1f} s at most.
- A run of one record of everybody, with a state (`headwater run`): {found["run"] / found["people"] * 1e6:.2f} µs a record, a state of {found["state"] / 1e6:,.0f} MB, and {found["resumed"]:.1f} s of one processor to go on from it.
"""  # noqa: E501


def few(kept: dict[str, Any], records: int) -> str:
    """The same for fewer records."""
    found, suggested = curves(kept, records), kept["suggested"][str(records)]
    return f"""
### {records:,} records

{verdicts(found, suggested)}

With the cap for the mean, {compromise(found, suggested)}.
"""


def sizes(kept: dict[str, Any]) -> list[int]:
    """How many records runs have; most first."""
    return sorted({run["records"] for run in kept["runs"]}, reverse=True)


def page(kept: dict[str, Any]) -> str:
    """The page as Markdown."""
    records, *small = sizes(kept)
    found = curves(kept, records)
    seeds = 1 + max(run["seed"] for run in kept["runs"])
    return f"""# How many records of a person should count

Made by `benchmarks/people.py`; the numbers are in `people.json`. People are made up: each has 1 to 1,000 records, with probability *n*^−1.2 (heavy tail), *n*^−1.5 (middle) or *n*^−1.8 (lighter) of having *n* or more, in random order. Everyone has habits, and those of people with many records are other ones. ε = 1 is for a
**person**; {records:,} records, means of {seeds} run(s) each. With a cap of `k` the first `k` records of a person count, and noise has `k` times the scale. The last cap, 1,000, leaves nothing out: it is what one gets by running with ε/1,000 and no cap, knowing that nobody has more.

![Error against the cap](people.png)

## The suggested cap

`headwater.suggest_records_per_person` is given the law of the number of records, the schema, ε and `t`, and nothing of the data. Its constants were chosen with the heavy and the lighter tail in view; the middle tail was run
afterwards. `differ` (how different people with many records are) is the one number that a user may know better.

{verdicts(found, kept["suggested"][str(records)])}

A table is best for pairs of columns with a smaller cap than for single columns, which need less budget (the best one-way errors come with caps so large that no pairs are measured at all). `measure=` says what a cap should be best for; without it, it is the mean of both: then {compromise(found, kept["suggested"][str(records)])}.
{"".join(few(kept, number) for number in small)}
## All caps

{every(found, kept, records)}

Small caps leave out what people with many records do; large ones drown in noise. The curve is flat near its least: a factor of two in the cap costs little. In wide tables the step at 32 is where the noise leaves no time for pairs within {records:,} records.

## A second cap, for buckets

With δ > 0 a person's records cost the sum of the squares of their numbers in buckets, so a cap for buckets lowers the noise (`per_bucket`); it also leaves out more. For pure ε it would change nothing, and is refused.
Half of a stream lies in the last bucket of marginals, so a small cap there leaves out much. Two numbers have Laplace noise unless the cap for buckets is small. Heavy tail:

{buckets(kept)}

## Memory

{memory(kept["memory"]) if "memory" in kept else ""}"""  # noqa: E501


def write(folder: Path) -> None:
    """Write the page and its pictures beside the numbers."""
    kept = json.loads((folder / "people.json").read_text())
    records = max(sizes(kept))
    found, suggested = curves(kept, records), kept["suggested"][str(records)]
    marks = {key: suggested[" ".join(key)] for key in found}
    titles = {key: f"{NAMES[key[0], key[2]]}, {TAILS[key[1]]}" for key in found}
    people_pictures.errors(
        folder / "people.png",
        {titles[key]: list(caps.items()) for key, caps in found.items()},
        {titles[key]: marks[key] for key in found},
    )
    (folder / "people.md").write_text(page(kept))


if __name__ == "__main__":
    write(Path(__file__).parents[1] / "docs" / "benchmarks")
