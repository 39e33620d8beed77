"""How often error bars of answers hold what the data say, and how wide they are: ``make bench-answers``.

Questions are chosen by the release alone. ``python -m benchmarks.answers --sealed`` runs the sealed tables, once.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

import headwater as hw
from benchmarks.tables.data import Table, table
from headwater.public import answers as engine
from headwater.public.answers import Answer, Answers
from headwater.public.release import Release, TableModel

PER = 24
"""Questions of each kind."""
LEVELS = (0.9, 0.5)


@dataclass(frozen=True)
class Case:
    """One run, and which of its releases is asked."""

    table: str
    n: int
    epsilon: float = 1.0
    mechanism: str = "auto"
    delta: float = 0.0
    window: float = 0.0
    nulls: float = 0.0
    people: int = 0

    def __str__(self) -> str:
        more = {"ε": self.epsilon, "δ": self.delta, "window": self.window, "nulls": self.nulls, "people": self.people}
        said = " ".join(f"{name}={value:g}" for name, value in more.items() if value not in (0, 1.0))
        return f"{self.table} {self.n:,} {'' if self.mechanism == 'auto' else self.mechanism} {said}".strip()


DEVELOPMENT = (
    Case("diamonds", 30_000),
    Case("flights", 60_000),
    Case("births", 60_000),
    Case("voters", 40_000),
    Case("movies", 40_000),
    Case("flights", 12_000),
    Case("flights", 327_000),
    Case("diamonds", 10_000, 4.0),
    Case("births", 2_000),
    Case("flights", 65_536, 0.5),
    Case("opinions", 60_000, delta=1e-6),
    Case("diamonds", 32_768, delta=1e-6),
    Case("flights", 100_000, window=0.2),
    Case("diamonds", 40_000, nulls=0.2),
    Case("births", 60_000, people=4),
    Case("moments", 60_000),
    Case("health", 20_000),
    Case("flights:3", 60_000),
    Case("diamonds:3", 40_000),
    Case("births:2", 60_000),
    Case("flights:2", 12_000, 0.5),
    Case("flights:3", 100_000, window=0.2),
    Case("diamonds:3", 30_000, nulls=0.2),
    Case("moments:3", 40_000, 4.0),
)
QUICK = tuple(DEVELOPMENT[i] for i in (0, 1, 2, 17, 18))
SEALED = (
    Case("stops", 51_920),
    Case("stops", 20_000, 4.0),
    Case("wages", 61_697),
    Case("wages", 16_384, delta=1e-6),
    Case("wages", 60_000, window=0.3),
    Case("happiness", 17_137),
    Case("happiness", 8_192, 4.0),
    Case("stops:2", 51_920),
    Case("wages:3", 61_697),
    Case("wages:3", 20_000, 0.5),
    Case("wages:2", 40_000, nulls=0.1),
)


def _moments() -> Table:
    """Flights with a date and a time of day."""
    whole = table("flights")
    frame = whole.frame.copy()
    month = frame["month"].astype(int)
    frame["day"] = pd.to_datetime({"year": 2013, "month": month, "day": 1}) + pd.to_timedelta(
        np.random.default_rng(0).integers(0, 28, len(frame)), "D"
    )
    names = ["day", "dep_delay", "origin", "air_time", "carrier"]
    columns = {name: whole.schema.columns[name] for name in names[1:]}
    schema = hw.Schema({"day": hw.Datetime("2013-01-01", "2013-12-31", step="1d"), **columns})
    return Table("moments", frame[names], schema)


def read(name: str) -> Table:
    """A table by its name: with ``:3`` its first columns of different kinds."""
    base, _, few = name.partition(":")
    found = _moments() if base == "moments" else table(base)
    if not few:
        return found
    columns: Any = found.schema.columns
    listed = [c for c in columns if isinstance(columns[c], hw.Category) and columns[c].size < 100]
    names = [c for c in columns if c not in listed and not isinstance(columns[c], hw.Boolean | hw.Category)][
        : int(few) - 1
    ]
    names += listed[-1:] or [c for c in columns if c not in names][:1]
    return Table(name, found.frame[names], hw.Schema({c: columns[c] for c in names}))


def release_of(case: Case, seed: int) -> tuple[Release, pd.DataFrame]:
    """The release, and the records that it is about."""
    found: Any = read(case.table)
    frame = found.frame.iloc[: case.n].reset_index(drop=True)
    person = hw.Person("who", records=case.people) if case.people else None
    synth = hw.Synthesizer(
        found.schema, epsilon=case.epsilon * (case.people or 1), delta=case.delta, seed=seed, mechanism=case.mechanism,
        person=person,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    null = rng.random(len(frame)) < case.nulls
    for start in range(0, len(frame), 5000):
        part = frame.iloc[start : start + 5000]
        if case.people:
            part = part.assign(who=[f"{i // case.people}" for i in part.index])
        batch = synth.encode(part)
        if null.any():
            rows = batch.rows.copy()
            rows[null[start : start + 5000]] = np.iinfo(rows.dtype).max
            batch = (
                batch._replace(rows=rows)
                if hasattr(batch, "_replace")
                else type(batch)(**{**batch.__dict__, "rows": rows})
            )
        synth.take(batch)
    release = synth.release(last=round(case.window * len(frame))) if case.window else synth.release()
    kept = frame.iloc[release.start :]
    return release, kept[~null[release.start :]]


def questions(
    release: Release, seed: int, per: int = PER
) -> Iterator[tuple[str, str, tuple[Any, ...], dict[str, Any]]]:
    """Kinds of questions, methods of releases, and what they are called with."""
    rng, schema = np.random.default_rng([seed, 77]), cast("Any", release.schema)
    points = release.points()
    columns = schema.decode(points[rng.permutation(len(points))[:50_000]], "columns")
    ordered, listed = list[str](), list[str]()
    for name, column in schema.columns.items():
        some = isinstance(column, hw.Category | hw.Boolean)
        (listed if some else ordered).append(name)
    values = {}
    for name in ordered:
        array = columns[name]
        array = array[~pd.isna(array)]
        values[name] = np.sort(array.astype("datetime64[us]") if array.dtype.kind == "M" else array.astype(float))

    def range_of(name: str, how: int) -> tuple[Any, Any]:
        own = values[name]
        whole = not isinstance(schema.columns[name], hw.Number)
        if own.dtype.kind == "M" or how == 0:
            low, high = np.sort(rng.random(2))
            found = own[int(low * (len(own) - 1))], own[int(high * (len(own) - 1))]
        elif how == 1:
            low, high = (float(limit) for limit in schema.columns[name].limits)
            for _ in range(50):
                many = rng.choice((24, 50))
                at = rng.integers(many)
                found = low + at * (high - low) / many, low + (at + 1) * (high - low) / many
                if ((own >= found[0]) & (own < found[1])).mean() > 0.002:
                    break
        else:
            ends = np.quantile(own, (0.01, 0.99))
            low, high = np.sort(rng.uniform(ends[0], ends[1], 2))
            step = 10 ** np.floor(np.log10(max(ends[1] - ends[0], 1e-9) / 20))
            found = round(low / step) * step, round(high / step) * step + step
        if own.dtype.kind == "M":
            return tuple(pd.Timestamp(v).to_pydatetime() for v in found)
        if whole:
            return int(np.ceil(found[0])), max(int(np.floor(found[1])), int(np.ceil(found[0])))
        limits = schema.columns[name].limits
        first, last = max(float(found[0]), limits[0]), min(float(found[1]), limits[1])
        return first, max(last, first + 1e-3 * (limits[1] - limits[0]))

    def value_of(name: str) -> Any:  # noqa: ANN401 - of any column
        one = columns[name][rng.integers(len(columns[name]))]
        return None if one is None or one != one else one.item() if hasattr(one, "item") else one

    def pick(names: list[str]) -> str:
        return names[rng.integers(len(names))]

    for turn in range(per):
        if ordered:
            name = ordered[turn % len(ordered)]
            yield "interval", "share", ({name: range_of(name, turn // len(ordered) % 3)},), {}
            yield "quantile", "quantile", (name, float(rng.choice((0.1, 0.25, 0.5, 0.75, 0.9)))), {}
            yield "mean", "mean", (name,), {}
        if listed:
            name = pick(listed)
            yield "category", "share", ({name: value_of(name)},), {}
        if ordered and listed:
            yield "group mean", "mean", (pick(ordered),), {"where": {(g := pick(listed)): value_of(g)}}
            yield "group quantile", "quantile", (pick(ordered), 0.5), {"where": {(g := pick(listed)): value_of(g)}}
        if len(ordered) > 1:
            a, b = rng.choice(ordered, 2, replace=False)
            yield "box", "share", ({str(a): range_of(a, 0), str(b): range_of(b, 0)},), {}
            yield "correlation", "correlation", (str(a), str(b)), {}
        if len(listed) > 1:
            a, b = map(str, rng.choice(listed, 2, replace=False))
            yield "joint", "share", ({a: value_of(a), b: value_of(b)},), {}
            yield "rate", "share", ({a: value_of(a)},), {"of": {b: value_of(b)}}
        if len(schema.names) > 2 and ordered and listed:
            c, g = pick(ordered), pick(listed)
            others = [n for n in schema.names if n not in (c, g)]
            o = pick(others)
            third = {o: range_of(o, 0) if o in ordered else value_of(o)}
            yield "three columns", "count", ({c: range_of(c, 0), g: value_of(g), **third},), {}


def run(case: Case, seed: int) -> list[dict[str, Any]]:
    """Every question with its answer, its bars and what the data say."""
    release, frame = release_of(case, seed)
    real = release.schema.encode(frame)
    truth = Answers(TableModel(real, None), lambda: real, None, release.schema, 0)  # type: ignore[arg-type]  # no errors
    scale = len(release) / max(len(real), 1)
    found, seen, begun = list[dict[str, Any]](), set[str](), time.process_time()
    first = 0.0
    for kind, method, args, more in questions(release, seed):
        key = repr((method, args, more))
        if key in seen:
            continue
        seen.add(key)
        try:
            several = [getattr(release, method)(*args, **more, level=level) for level in LEVELS]
        except ValueError:  # a range that holds one value of a continuum
            continue
        first = first or time.process_time() - begun
        extra = {"where": None, "by": None, "level": 0.9} | ({"of": None} if method == "share" else {}) | more
        if method in ("count", "share"):
            extra["where"], said = args[0], ()
        else:
            said = args
        real_answer = getattr(truth, method)(*said, **extra)
        value = float(real_answer) * (scale if method == "count" else 1)
        if not np.isfinite(value):
            continue
        nine = several[0]
        width = _width(release, method, args, nine)
        found.append(
            {"case": str(case), "seed": seed, "kind": kind, "how": nine.how, "question": key, "real": value,
             "answer": float(nine), "low": nine.low, "high": nine.high, "unit": width,
             "in": [bool(a.low - 1e-9 <= value <= a.high + 1e-9) for a in several], "half": nine.plus_minus / width}
        )  # fmt: skip
    spent = time.process_time() - begun
    print(f"{case} seed {seed}: {len(found)} questions, first {first:.1f} s, all {spent:.0f} s", flush=True)
    return found


def _width(release: Release, method: str, args: tuple[Any, ...], answer: Answer) -> float:
    if method in ("share", "correlation"):
        return 1.0
    if method == "count":
        return float(len(release))
    values, there = release._answers.release.values(cast("Any", release.schema).names.index(args[0]))
    return float(values[there].std()) or 1.0


def summary(rows: list[dict[str, Any]], by: str) -> str:
    """Coverage of both bars, half-width over mean error, by a key."""
    frame = pd.DataFrame(rows)
    frame["error"] = (frame.real - frame.answer).abs() / frame.unit
    frame["in90"], frame["in50"] = frame["in"].str[0], frame["in"].str[1]
    lines = [f"{by:24} {'n':>6} {'90 %':>6} {'50 %':>6} {'half/err':>8} {'error':>8}"]
    for name, part in frame.groupby(by, sort=False):
        known = part[part.how != engine.UNKNOWN]
        wide = known.half.mean() / max(known.error.mean(), 1e-12) if len(known) else float("nan")
        lines.append(
            f"{str(name)[:24]:24} {len(part):6} {known.in90.mean():6.2f} {known.in50.mean():6.2f} {wide:8.2f} "
            f"{known.error.mean():8.4f} {len(part) - len(known):4} not known"
        )
    return "\n".join(lines)


def main(words: list[str]) -> None:
    warnings.simplefilter("ignore")  # of seeds
    engine.MOST_ROWS = 1 << 20
    seeds = [int(word) for word in os.environ.get("SEEDS", "1").split(",")]
    cases = SEALED if "--sealed" in words else QUICK if os.environ.get("SIZE") == "quick" else DEVELOPMENT
    chosen = os.environ.get("CASES")
    if chosen:
        cases = tuple(case for case in cases if any(word in str(case) for word in chosen.split(";")))
    rows = []
    for seed in seeds:
        for case in cases:
            rows += run(case, seed)
            if "OUT" in os.environ:
                Path(os.environ["OUT"]).write_text(json.dumps(rows, default=str))
    for by in ("kind", "how", "case"):
        print(summary(rows, by), "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
