"""The page of the benchmark of wide tables, made from its numbers alone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from statistics import mean
from typing import Any

from benchmarks.pages import Figure, judged, number
from benchmarks.pages import table as markdown
from benchmarks.tables.cases import AIM, BEFORE, CASCADE, EARLY, EXPECTING, NARROW, PLAIN, WITH_DELTA
from benchmarks.tables.data import DEVELOPMENT, READERS, SEALED, table
from benchmarks.tables.offline import DELTA, DPMM, HISTOGRAMS, TIME_LIMIT
from headwater.evaluation.yardstick import ONE_COLUMN, TWO_COLUMNS, mean_ratio

MST = ("mst 16", "mst 64")
Errors = dict[str, float | None]
SINGLE = {"w1": "W1", "ks": "KS", "bins_7": "7 bins", "bins_16": "16 bins", "bins_24": "24 bins", "bins_50": "50 bins"}
SINGLE |= {"bins_100": "100 bins", "pairs_16": "two columns in 16 bins", "group_means": "means by group"}
SINGLE |= {"worst_group": "the worst group", "pearson": "Pearson", "spearman": "Spearman", "boxes": "boxes"}
SINGLE |= {"boxes_95": "boxes, 95 %", "risk_ratios": "risk ratios"}
"""The questions, as the page calls them."""


class Numbers:
    """Errors by method, table and time, the means over seeds."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self.rows: dict[tuple[str, str, int], list[Errors]] = defaultdict(list)
        for row in rows:
            self.rows[row["method"], row["table"], row["t"]].append(row)

    def errors(self, method: str, name: str, t: int | None = None) -> Errors:
        """Of a release of the whole table, or at another time; empty if it was not measured."""
        found = self.rows.get((method, name, self.end(name) if t is None else t), [])
        return {one: _mean([row.get(one) for row in found]) for one in SINGLE} if found else {}

    def end(self, name: str) -> int:
        return max((t for _, there, t in self.rows if there == name), default=0)

    def ratio(self, ours: str, name: str, of: tuple[str, ...], theirs: tuple[str, ...] = MST) -> float | None:
        """The geometric mean over some questions of our error over the least of theirs."""
        others = [self.errors(method, name) for method in theirs]
        return mean_ratio(self.errors(ours, name), *others, of=of) if all(others) else None

    def over(self, names: Iterable[str], ours: str, of: tuple[str, ...]) -> dict[str, float]:
        """That of each table."""
        return {name: ratio for name in names if (ratio := self.ratio(ours, name, of)) is not None}

    def early(self, ours: str, theirs: str, of: tuple[str, ...]) -> dict[str, float]:
        """Ratios at early times, the geometric mean over tables."""
        found = {}
        for t in EARLY:
            ratios = [
                mean_ratio(self.errors(ours, name, t), self.errors(theirs, name, t), of=of) for name in DEVELOPMENT
            ]
            if known := [ratio for ratio in ratios if ratio is not None]:
                found[f"{t:,} records"] = _geometric(known)
        return found


def _mean(errors: Iterable[float | None]) -> float | None:
    known = [error for error in errors if error is not None]
    return mean(known) if known else None


def _geometric(ratios: Iterable[float]) -> float:
    return math.exp(mean(map(math.log, ratios)))


def figures(found: dict[str, Any]) -> list[Figure]:
    """What is asked."""
    numbers = Numbers(found["rows"])
    asked = []
    for kind, names in (("sealed tables", SEALED), ("other tables", DEVELOPMENT)):
        for what, of in (("one column", ONE_COLUMN), ("two columns", TWO_COLUMNS)):
            ratios = numbers.over(names, PLAIN, of)
            asked.append(Figure(f"{what}, {kind}", ratios, at_most=0.85))
            if ratios:
                asked.append(Figure(f"{what}, {kind}: geometric mean", _geometric(ratios.values()), at_most=0.6))
        for one, title in SINGLE.items():
            most = 1.0 if one in ("spearman", "risk_ratios") else 2.0 if one in ("bins_24", "bins_50") else 1.3
            if one != "bins_100":
                asked.append(Figure(f"{title}, {kind}", numbers.over(names, PLAIN, (one,)), at_most=most))
        for one in ("bins_24", "bins_50"):
            ratios = numbers.over(names, WITH_DELTA, (one,))
            asked.append(Figure(f"{SINGLE[one]}, with δ, {kind}", ratios, at_most=1.5))
        beside = {name: numbers.ratio(PLAIN, name, ("w1",), (HISTOGRAMS,)) for name in names}
        known = {name: ratio for name, ratio in beside.items() if ratio is not None}
        asked.append(Figure(f"W1 / histograms of 64 bins, {kind}", known, at_most=1))
        if known:
            asked.append(Figure(f"W1 / histograms of 64 bins, {kind}: mean", mean(known.values()), at_most=0.5))
    for what, of in (("one column", ONE_COLUMN), ("two columns", TWO_COLUMNS)):
        gain = {name: numbers.ratio(EXPECTING, name, of, (PLAIN,)) for name in DEVELOPMENT}
        known = {name: ratio for name, ratio in gain.items() if ratio is not None}
        asked.append(Figure(f"{what}: expecting t / without", known, at_most=1.05))
        asked.append(Figure(f"{what}, early: now / before", numbers.early(PLAIN, BEFORE, of), at_most=1.1))
    now = {name: numbers.ratio(PLAIN, name, ("pairs_16",), (BEFORE,)) for name in DEVELOPMENT}
    known = {name: ratio for name, ratio in now.items() if ratio is not None}
    asked.append(Figure("two columns in 16 bins: now / before", known, at_most=1.05))
    regret = {}
    for (name, t), ratio in narrow(numbers).items():
        regret[f"{name} {t:,}"] = max(1.0, ratio if found["auto"].get(name) != CASCADE else 1 / ratio)
    asked.append(
        Figure("what `auto` takes / the better mechanism, up to three columns", regret, at_most=1.2, goal=True)
    )
    releases = {row["table"]: row["release"] for row in found["rows"] if row["method"] == PLAIN and "release" in row}
    asked.append(Figure("a release", releases, "s", at_most=2))
    return asked


def narrow(numbers: Numbers) -> dict[tuple[str, int], float]:
    """Marginals over cascade on few columns: the geometric mean over all questions."""
    found = {}
    for name in NARROW:
        for t in sorted({t for _, there, t in numbers.rows if there == name}):
            both = [numbers.errors(method, name, t) for method in (PLAIN, CASCADE)]
            if all(both) and (ratio := mean_ratio(*both, of=(*ONE_COLUMN, *TWO_COLUMNS))) is not None:
                found[name, t] = ratio
    return found


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _overview(numbers: Numbers) -> str:
    head = [
        "table",
        "t",
        *(f"{method}: {of}" for method in ("before", "plain", "expecting t", "with δ") for of in ("one", "two")),
    ]
    rows = []
    for name in READERS:
        ratios = [
            numbers.ratio(m, name, of)
            for m in (BEFORE, PLAIN, EXPECTING, WITH_DELTA)
            for of in (ONE_COLUMN, TWO_COLUMNS)
        ]
        if not any(ratios):
            continue
        rows.append([f"{name} (sealed)" if name in SEALED else name, f"{len(table(name)):,}", *map(_shown, ratios)])
    return markdown(head, rows, "lr")


def _questions(numbers: Numbers) -> str:
    """Each question: our error, the better MST's, and the mean ratio, over the tables where both were measured."""
    rows = []
    for one, title in SINGLE.items():
        cells = []
        for names in (DEVELOPMENT, SEALED):
            ratios = numbers.over(names, PLAIN, (one,))
            cells += [_shown(_geometric(ratios.values())), _shown(max(ratios.values()))] if ratios else ["", ""]
        ours = [error for name in READERS if (error := numbers.errors(PLAIN, name).get(one)) is not None]
        if not ours:
            continue
        rows.append([title, number(mean(ours), 2) if ours else "", *cells])
    head = ["question", "mean error", "ratio", "worst", "sealed: ratio", "worst"]
    return markdown(head, rows, "lr")


def _narrow(numbers: Numbers, auto: dict[str, str]) -> str:
    ratios, rows = narrow(numbers), []
    for name in sorted({name for name, _ in ratios}, key=NARROW.index):
        cells = [_shown(ratios.get((name, t))) for t in (*EARLY, max((t for n, t in ratios if n == name), default=0))]
        rows.append([name, *cells, auto.get(name, "")])
    return markdown(["columns", *(f"t = {t:,}" for t in EARLY), "all rows", "`auto` takes"], rows, "lr")


def _aim(numbers: Numbers) -> str:
    lines = []
    for name in AIM:
        ours = PLAIN if numbers.errors(PLAIN, name) else BEFORE
        one, two = (numbers.ratio(ours, name, of, ("aim 16",)) for of in (ONE_COLUMN, TWO_COLUMNS))
        said = "AIM did not end" if one is None or two is None else f"{one:.2f} (one column), {two:.2f} (two columns)"
        lines.append(f"- Headwater over AIM, 16 bins, on {name}: {said}.\n")
    return "".join(lines)


def page(found: dict[str, Any]) -> str:
    """The page in Markdown."""
    numbers = Numbers(found["rows"])
    about = "".join(f"- **{name}**: {' '.join((reader.__doc__ or '').split())}\n" for name, reader in READERS.items())
    return f"""# How good are releases of wide tables?

Errors of Headwater's releases at ε = 1 over those of the better of two offline releases by MST, one with 16 bins a
column and one with 64: below 1 Headwater is better. Geometric means of the questions about one column (KS, W1, 24 and
50 bins) and about two (means by group, Spearman, boxes, their 95th percentile, risk ratios):

{_overview(numbers)}
By question, over tables; the mean error is in the question's own unit:

{_questions(numbers)}
Two and three columns, marginals over cascade, all questions (below 1 marginals are better):

{_narrow(numbers, found["auto"])}
{_aim(numbers)}
What was asked for; the number of places is in brackets:

{judged(figure for figure in figures(found) if figure.places)}
**KS** is the largest difference of the shares of rows up to a value, **W1** in standard deviations of the column,
**bins** total variation on equal parts of the declared range. **Means by group** are in standard deviations, in groups
of 2 % of the rows and more; **boxes** are shares of rows in 400 random boxes over two or three columns; **risk ratios**
are logarithms, of outcomes that 1 to 10 % of the rows have.

## What was compared

- **headwater**: marginals; a release at any moment, all with one pure ε. With `expect=t` it is planned for t records,
  which offline methods know; with `delta={DELTA:g}` it has their δ. **Before**: the version tuned on 16 bins.
- **MST, AIM**: dpmm {DPMM}, δ = {DELTA:g}, one release of the whole table, one seed, given up after
  {TIME_LIMIT // 60} minutes of the processor; values even inside bins. dpmm calibrates its noise to adding or removing
  a record, Headwater to replacing one, which is up to twice as hard.
- **histograms**: offline, pure ε; a Laplace histogram of 64 bins of each column by itself.

Whole numbers and decimals are declared as such. Sealed ({", ".join(SEALED)}) are tables that were named here before any
run of Headwater on them, and are run once. They have 15,000 to 36,000 rows: none that could be had offline has more.

{about}
Flights, weather and hotels come in order of time. Made by `make bench-tables` on {found["made"]}; every row is in
`tables.json`.
"""
