"""The page of the benchmark of wide tables, made from its numbers alone."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean
from typing import Any

from benchmarks.pages import Figure, judged, number, picture
from benchmarks.pages import table as markdown
from benchmarks.tables.cases import CASCADE, EXPECTING, MARGINALS, WITH_DELTA
from benchmarks.tables.data import DEVELOPMENT, HELD_OUT, READERS
from benchmarks.tables.offline import DELTA, DPMM, INDEPENDENT, NOTHING, TIME_LIMIT

Place = tuple[str, int, float]
"""A table, a time, and ε."""
LOOK = {
    MARGINALS: ("#0b6e99", "o-"),
    EXPECTING: ("#0b6e99", "*"),
    WITH_DELTA: ("#0b6e99", "o:"),
    CASCADE: ("#8fb9c9", "o-"),
    "mst": ("#b3402f", "s"),
    "aim": ("#5f3f7f", "^"),
    INDEPENDENT: ("#7a7a7a", ".--"),
}


class Numbers:
    """Errors by method and place, the means over seeds."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.rows: dict[str, dict[Place, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
        for row in found["rows"]:
            self.rows[row["method"]][row["table"], row["t"], row["epsilon"]].append(row)

    def error(self, method: str, place: Place, measure: str = "two_way") -> float | None:
        """The mean of a measure over seeds; None where it was not measured."""
        rows = self.rows[method].get(place)
        return mean(row[measure] for row in rows) if rows else None

    def ratios(
        self, ours: str, theirs: str, *, least: int = 0, below: int = 1 << 60, one: bool = True, narrow: bool = True
    ) -> dict[str, float]:
        """Two-way errors divided by another method's, wherever both were measured, by the name of the place."""
        found = {}
        for place in sorted(self.rows[ours]):
            mine, other = self.error(ours, place), self.error(theirs, place)
            wanted = least <= place[1] < below and (place[2] == 1) is one and (narrow or ":" not in place[0])
            if wanted and mine is not None and other:
                found[f"{place[0]} {place[1]:,}" + ("" if one else f", ε = {place[2]:g}")] = mine / other
        return found


def figures(found: dict[str, Any]) -> list[Figure]:
    """What is asked."""
    numbers = Numbers(found)
    asked = []
    for method in (MARGINALS, EXPECTING):
        late = numbers.ratios(method, "mst", least=50_000)
        asked.append(Figure(f"{method} / MST, t ≥ 50,000", late, at_most=1.4))
        beside = numbers.ratios(method, INDEPENDENT, least=8_192)
        asked.append(Figure(f"{method} / independent histograms, t ≥ 8,192", beside, at_most=1))
    others = numbers.ratios(MARGINALS, INDEPENDENT, least=8_192, one=False)
    asked.append(Figure("marginals / independent histograms at ε = 0.5 and 4", others, at_most=1, goal=True))
    gain = numbers.ratios(WITH_DELTA, MARGINALS, least=1 << 15, narrow=False)
    asked.append(Figure(f"marginals with δ = {DELTA:g} / without, t ≥ 32,768", gain, at_most=1))
    few = numbers.ratios(MARGINALS, NOTHING, below=4_096)
    asked.append(Figure("marginals / doing nothing, t < 4,096", few, at_most=1))
    both = numbers.ratios(MARGINALS, CASCADE)
    chosen = {place: found["auto"][place.split()[0]] for place in both}
    regret = {place: max(1.0, ratio if chosen[place] == MARGINALS else 1 / ratio) for place, ratio in both.items()}
    asked.append(Figure("marginals / cascade, t ≥ 4,096", numbers.ratios(MARGINALS, CASCADE, least=4_096), at_most=1))
    asked.append(Figure("what `auto` chooses / the better of the two", regret, at_most=1.1))
    known = [row for rows in numbers.rows[MARGINALS].values() for row in rows if row["expected"]]
    below = mean(row["two_way"] <= row["expected"][1] for row in known)
    asked.append(Figure("share of releases with an error below `expected_error().upper`", below))
    costs = {f"{cost['mechanism']} on {cost['table']}": cost for cost in found["costs"]}
    for what, ours, bare, most, goal in (
        ("taking data frames / bare counts of all pairs", "update", "count_all", 3, True),
        ("drawing / `Generator.random`", "draw", "random", 100, False),
    ):
        places = {place: cost[ours] / cost[bare] for place, cost in costs.items()}
        asked.append(Figure(what, places, "×", at_most=most, goal=goal))
    asked.append(Figure("a release", {place: cost["release"] for place, cost in costs.items()}, "s", at_most=2))
    state = {place: cost["state"] for place, cost in costs.items()}
    asked.append(Figure("state, bytes for each record and column", state, at_most=4))
    return asked


def page(found: dict[str, Any]) -> str:
    """The page in Markdown."""
    numbers, rows = Numbers(found), []
    for name in READERS:
        place = max(p for p in numbers.rows["mst"] if p[0] == name and p[2] == 1)
        ours = [number(numbers.error(MARGINALS, place, measure) or 0, 2) for measure in ("one_way", "two_way")]
        ratios = []
        for method, other in ((MARGINALS, "mst"), (EXPECTING, "mst"), (WITH_DELTA, "mst"), (MARGINALS, INDEPENDENT)):
            mine, theirs = numbers.error(method, place), numbers.error(other, place)
            ratios.append(f"{mine / theirs:.2f}" if mine and theirs else "")
        rows.append([name + (" (held out)" if name in HELD_OUT else ""), f"{place[1]:,}", *ours, *ratios])
    head = ["table", "t", "one-way", "two-way", "two-way / MST", "expecting t", "with δ", "/ independent"]
    about = "".join(f"- **{name}**: {' '.join((reader.__doc__ or '').split())}\n" for name, reader in READERS.items())
    return f"""# How good are releases of wide tables?

Errors of marginals at ε = 1, and ratios of two-way errors: to MST with all of ε and a δ on one release, and to
independent histograms. Below 1 Headwater is better.

{markdown(head, rows, "lr")}
![Two-way error against t](tables-time.png)

Ratios of two-way errors at ε = 1 unless said otherwise, and costs; the number of places is in brackets:

{judged(figures(found))}
## What was compared

Errors are total variation between real and synthetic marginals, the mean over all columns or over all pairs of columns.
Numeric columns are cut into 16 equal cells, a missing value has a cell of its own.

- **marginals**: `Synthesizer(…, mechanism="marginals")`; a release at any moment, for ever, all with one pure ε. With
  `expect=t` it is planned for t records, which offline methods know; with `delta={DELTA:g}` it has their δ.
- **cascade**: the same promise as marginals without δ.
- **MST, AIM**: dpmm {DPMM}, δ = {DELTA:g}, one release of the complete data at t, given up after
  {TIME_LIMIT // 60} minutes of the processor.
- **independent**: offline, pure ε; a Laplace histogram of each column by itself. **nothing**: even over all cells.

All offline methods get the 16 cells by which errors are measured, which Headwater lacks. dpmm calibrates its noise to
adding or removing a record, Headwater to replacing one, which is up to twice as hard. Both favour the others.

{about}
The flights come in order of time, the other tables are shuffled. Constants were chosen without the tables held out, but
for two of the first stage with pairs; errors of all others were seen meanwhile. Costs are seconds of the processor, one
thread. Made by `make bench-tables SIZE={found["size"]}` on {found["made"]}; every row, with the worst marginals and
correlations, is in `tables.json`.
"""


def draw(found: dict[str, Any]) -> None:
    """Two-way errors against t."""
    numbers = Numbers(found)
    with picture("tables-time", 2, 4, (13, 6.4)) as axes:
        for axis, name in zip(axes.flat, DEVELOPMENT, strict=False):
            for method, (colour, style) in LOOK.items():
                at = sorted(t for table, t, epsilon in numbers.rows[method] if (table, epsilon) == (name, 1))
                errors = [numbers.error(method, (name, t, 1)) for t in at]
                axis.plot(at, errors, style, color=colour, label=method, markersize=4, linewidth=1.3)
            axis.set(title=name, xscale="log", yscale="log", xlabel="records t", ylabel="two-way total variation")
        axes.flat[-1].set_visible(False)
