"""How many records of a person should count? Errors against the cap, where people have 1 to 1,000 records.

    python -m benchmarks.people [--size quick | full]

People are made up: how many records they have has a heavy tail, everyone has habits, and the habits of those with many
records are other ones, so that a cap that is too small shows. ε = 1 is for a person, whatever the cap.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

import headwater as hw
from benchmarks import people_page, people_tables
from benchmarks.kept import ROOT, Kept, fingerprint
from benchmarks.pages import kept, publish
from headwater.evaluation import w1
from headwater.evaluation.axes import column_axes
from headwater.evaluation.yardstick import table_of, yardstick

EPSILON, MOST = 1.0, 1000
CAPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60, 1000)
SIZES = {"quick": ((1 << 14,), 1), "full": ((1 << 17, 20_000), 10)}
"""How many records runs have, and how many runs there are of each: half as many of those that take long (`DEAR`)."""
DEAR = ("wide", 1 << 17)
FRESH = 10  # the first seed: no constant of the rule that suggests caps was chosen by these runs
DELTA, BUCKET_CAP, PER_BUCKET = 1e-9, 16, (None, 8, 4, 2)
SIDE = 48  # of the grid on which W1 is computed
TAILS = {"heavy": 1.2, "middle": 1.5, "lighter": 1.8, "1.35": 1.35, "1.65": 1.65}
"""P(a person has n records or more) = n^−tail, up to `MOST`."""
OWN = ("plane", "wide"), ("heavy", "middle", "lighter")
OTHERS = ("visits", "survey"), ("1.35", "1.65")
"""Tables and tails: those in view when the rule was chosen, and others, with `OTHER_RECORDS` and fewer runs."""
OTHER_RECORDS, OTHER_SEEDS = 60_000, 3

PLANE = hw.Schema(x=hw.Number(0, 1), y=hw.Number(0, 1))
WIDE = hw.Schema(
    {f"kind{i}": hw.Category([f"k{j}" for j in range(4 + 2 * i)]) for i in range(5)}
    | {"paid": hw.Boolean(), "amount": hw.Number(0, 1), "hour": hw.Integer(0, 23)}
)


def sizes(tail: float) -> dict[int, float]:
    """How likely each number of records is: what is public about people."""
    ends = np.arange(1, MOST + 1, dtype=float) ** -tail
    shares = ends - np.append(ends[1:], 0.0)
    return {n + 1: float(share) for n, share in enumerate(shares)}


def people(tail: float, records: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Whose each record is, in order of arrival, and how active that person is, from 0 to 1."""
    rng = np.random.default_rng([seed, 1])
    known = sizes(tail)
    many = rng.choice(list(known), size=records, p=list(known.values()))
    many = many[: int(np.searchsorted(np.cumsum(many), records)) + 1]
    owner = rng.permutation(np.repeat(np.arange(len(many)), many))[:records]
    return owner, np.log(many[owner]) / np.log(MOST)


def plane(owner: NDArray[np.int64], activity: NDArray[np.float64], seed: int) -> dict[str, NDArray[np.float64]]:
    """Points near the places of their person; the more active, the more of them in one corner of town."""
    rng = np.random.default_rng([seed, 2])
    centres = np.array([[0.2, 0.25], [0.35, 0.7], [0.55, 0.45], [0.75, 0.2], [0.8, 0.8]])
    homes = rng.integers(0, 5, size=(int(owner.max()) + 1, 2))
    home = homes[owner, rng.integers(0, 2, len(owner))]
    home = np.where(rng.random(len(owner)) < 0.6 * activity, 4, home)
    points = np.clip(centres[home] + rng.normal(0, 0.06, (len(owner), 2)), 0, 1)
    return {"x": points[:, 0], "y": points[:, 1]}


def wide(owner: NDArray[np.int64], activity: NDArray[np.float64], seed: int) -> dict[str, NDArray[np.generic]]:
    """Columns that depend on the type of their person, on each other, and on how active the person is."""
    rng, n = np.random.default_rng([seed, 3]), len(owner)
    kind = rng.integers(0, 3, int(owner.max()) + 1)[owner]
    kind = np.where(rng.random(n) < 0.5 * activity, 3, kind)
    found: dict[str, NDArray[np.generic]] = {}
    for i in range(5):
        size = 4 + 2 * i
        near = (kind * size // 4 + rng.geometric(0.5, n) - 1) % size
        found[f"kind{i}"] = np.array([f"k{j}" for j in range(size)])[near]
    found["paid"] = rng.random(n) < 0.2 + 0.2 * kind
    found["amount"] = np.clip(rng.beta(2, 2 + kind), 0, 1)
    found["hour"] = (rng.normal(8 + 4 * kind, 3).astype(np.int64)) % 24
    return found


@dataclass(frozen=True)
class Case:
    """What is declared in one run."""

    records: int
    table: str
    tail: str
    cap: int
    seed: int
    delta: float = 0.0
    per_bucket: int | None = None

    def run(self) -> dict[str, Any]:
        """The error of one run: a release of all records, under this cap."""
        records = self.records
        owner, activity = people(TAILS[self.tail], records, self.seed)
        schema, data = SCHEMAS[self.table], MAKERS[self.table](owner, activity, self.seed)
        person = hw.Person("who", records=self.cap, per_bucket=self.per_bucket)
        synth = hw.Synthesizer(schema, epsilon=EPSILON, delta=self.delta, person=person, seed=self.seed)
        for start in range(0, records, 1 << 16):
            part = slice(start, start + (1 << 16))
            synth.update({**{name: column[part] for name, column in data.items()}, "who": owner[part]})
        release, capped, one_way = synth.release(), synth.capped / records, None
        if self.table == "plane":
            error = float(w1(schema.encode(data), release.points(), method="grid", side=SIDE).value)
        else:
            columns = column_axes(schema)
            real, made = (table_of(points, columns) for points in (schema.encode(data), release.points()))
            found = yardstick(columns, real, made)
            error, one_way = found["pairs_16"] or 0.0, found["bins_16"]
        return asdict(self) | {"capped": capped, "error": error, "one_way": one_way}


def suggested(records: int) -> dict[str, int]:
    """The caps that `headwater.suggest_records_per_person` names, from the public numbers alone."""
    tables, tails = OTHERS if records == OTHER_RECORDS else OWN
    return {
        f"{table} {tail} {measure}": hw.suggest_records_per_person(
            sizes(TAILS[tail]), SCHEMAS[table], epsilon=EPSILON, records=records, measure=MEASURES[table][measure]
        ).records
        for table in tables
        for tail in tails
        for measure in MEASURES[table]
    }


def cases(records: int, seeds: int, *, buckets: bool) -> Iterator[Case]:
    """All runs of so many records: every cap and the suggested ones; and caps for buckets, with a δ."""
    named = suggested(records)
    tables, tails = OTHERS if records == OTHER_RECORDS else OWN
    for seed in range(FRESH, FRESH + seeds):
        late = seed - FRESH >= (seeds + 1) // 2
        for table in tables:
            for tail in () if late and (table, records) == DEAR else tails:
                for cap in sorted({*CAPS, *(named[f"{table} {tail} {measure}"] for measure in MEASURES[table])}):
                    yield Case(records, table, tail, cap, seed)
        for table in tables if buckets and not late else ():
            yield Case(records, table, "heavy", BUCKET_CAP, seed)
            for per_bucket in PER_BUCKET:
                yield Case(records, table, "heavy", BUCKET_CAP, seed, DELTA, per_bucket)


SCHEMAS = {"plane": PLANE, "wide": WIDE, "visits": people_tables.VISITS, "survey": people_tables.SURVEY}
_TABLES = {"mean": None, "error": "two-way total variation", "one_way": "one-way total variation"}
MEASURES: dict[str, dict[str, str | None]] = dict.fromkeys(SCHEMAS, _TABLES) | {"plane": {"error": "W1"}}
"""What a cap may be suggested for: as the page calls it, and as `headwater.suggest_records_per_person` does."""
MAKERS: dict[str, Callable[..., Any]] = {"plane": plane, "wide": wide} | people_tables.MAKERS


def main() -> None:
    """Run what is missing, and write all of it down."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("quick", "full"), default="quick")
    size = parser.parse_args().size
    numbers, seeds = SIZES[size]
    runs = dict.fromkeys(numbers, seeds) | {OTHER_RECORDS: min(seeds, OTHER_SEEDS)}
    found = {**kept("people"), "size": size, "suggested": {str(records): suggested(records) for records in runs}}
    known, code, rows = Kept(ROOT / ".cache" / "people.jsonl"), fingerprint(), list[dict[str, Any]]()
    for records, many in runs.items():
        plan = track(dict.fromkeys(cases(records, many, buckets=records == numbers[0])), f"{records:,} records")
        rows += [known.find(str(case), code) or known.add(str(case), code, case.run()) for case in plan]
    publish("people", found | {"runs": rows}, people_page.page, people_page.draw)


if __name__ == "__main__":
    main()
