"""Pictures of people and caps: of the benchmark, and for docs/guarantees.md.

    python -m benchmarks.people_pictures [FOLDER]

draws those of the guide into docs/assets, or another folder.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ASSETS = Path(__file__).parents[1] / "docs" / "assets"
INK, GREY, SOFT, PERSON, OTHER, SOMEBODY = "#1d2733", "#59626c", "#8a97a6", "#c8442f", "#2f6fb3", "#c9d2dc"


def _pyplot() -> Any:  # noqa: ANN401 - a module without types
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams |= {"svg.hashsalt": "headwater", "font.size": 10, "axes.edgecolor": SOFT, "text.color": INK}
    mpl.rcParams |= {"axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "path"}
    from matplotlib import pyplot

    return pyplot


def _save(figure: Any, name: str) -> None:  # noqa: ANN401
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ASSETS
    figure.savefig(folder / name, metadata={"Date": None})


def neighbours() -> None:
    """Two pairs of streams: one record replaced; all records of a person replaced, of which three count."""
    plt = _pyplot()
    figure, axes = plt.subplots(2, 1, figsize=(9.2, 4.2), layout="constrained")
    length, places = 26, [2, 5, 9, 14, 18, 23]
    for axis, title, mine, cap in (
        (axes[0], "One record: replace one", [9], 1),
        (axes[1], "One person, of whom 3 records count: replace all of them", places, 3),
    ):
        for row, colour in ((1, PERSON), (0, OTHER)):
            for i in range(length):
                if i not in mine:
                    axis.plot(i, row, "o", ms=11, color=SOMEBODY)
                elif mine.index(i) < cap:
                    axis.plot(i, row, "o", ms=11, color=colour)
                else:
                    axis.plot(i, row, "o", ms=10, mfc="white", mec=colour, mew=1.5)
        axis.set(xlim=(-1.2, length + 3.6), ylim=(-0.7, 1.7))
        axis.set_title(title, loc="left", fontsize=11)
        axis.text(length - 0.2, 1, "one stream", va="center")
        axis.text(length - 0.2, 0, "its neighbour", va="center")
        axis.axis("off")
    legend = "filled: counts     hollow: has arrived and is nowhere     grey: other people, the same on both streams"
    axes[1].text(-0.5, -1.1, legend, color=GREY, va="top")
    figure.get_layout_engine().set(w_pad=0.15, h_pad=0.12)
    _save(figure, "guarantee-neighbours.svg")
    plt.close(figure)


def odds() -> None:
    """How sure a reader can become at most, by how sure they were before."""
    plt = _pyplot()
    figure, axis = plt.subplots(figsize=(6.4, 3.9), layout="constrained")
    before = np.linspace(0.001, 0.999, 400)
    for number, epsilon in enumerate((5.0, 2.0, 1.0, 0.5, 0.1)):  # as they lie above each other
        after = before * np.exp(epsilon) / (before * np.exp(epsilon) + 1 - before)
        axis.plot(100 * before, 100 * after, color=PERSON, alpha=0.85 - 0.15 * number, lw=2, label=f"ε = {epsilon:g}")
    axis.plot([0, 100], [0, 100], color=SOFT, ls=":", lw=1.5)
    axis.set(xlabel="how sure a reader was before, in %", ylabel="how sure they can be after, in %")
    axis.set(xlim=(0, 100), ylim=(0, 101))
    axis.legend(loc="lower right", frameon=False, title="from the top", alignment="left")
    _save(figure, "guarantee-odds.svg")
    plt.close(figure)


def units() -> None:
    """The ε of a person by the number of their records: of a run for records, and of runs for people."""
    plt = _pyplot()
    figure, axis = plt.subplots(figsize=(6.4, 3.9), layout="constrained")
    many = np.geomspace(1, 1000, 100)
    axis.loglog(many, many, color=PERSON, lw=2)
    axis.loglog(many, np.minimum(many, 20) / 20, color=OTHER, lw=2)
    axis.axhline(1, color=SOFT, lw=1, ls=":")
    axis.text(500, 1.25, "ε = 1", color=GREY)
    axis.text(28, 60, "run for one record", color=PERSON, ha="right")
    axis.text(40, 0.55, "run for one person,\nof whom at most 20 records count", color=OTHER, va="top")
    axis.set(xlabel="records of a person", ylabel="ε of that person", ylim=(0.03, 1500))
    _save(figure, "guarantee-units.svg")
    plt.close(figure)


def periods() -> None:
    """A person over three periods, of whom two records count in each; and a stretch that touches two of them."""
    plt = _pyplot()
    figure, axis = plt.subplots(figsize=(9.2, 2.1), layout="constrained")
    size, places = 10, [1, 4, 6, 8, 12, 17, 19, 21, 27]
    for period in range(3):
        axis.axvspan(size * period - 0.45, size * (period + 1) - 0.55, color=SOMEBODY, alpha=0.35, lw=0)
        axis.text(size * period, 1.15, f"period {period + 1}: ε", color=INK)
    counts = [0, 0, 0]
    for i in range(3 * size):
        if i not in places:
            axis.plot(i, 0.4, "o", ms=9, color=SOMEBODY)
        elif (counts := [n + (p == i // size) for p, n in enumerate(counts)])[i // size] <= 2:
            axis.plot(i, 0.4, "o", ms=11, color=PERSON)
        else:
            axis.plot(i, 0.4, "o", ms=10, mfc="white", mec=PERSON, mew=1.5)
    axis.annotate("", (16.5, -0.35), (5.5, -0.35), arrowprops={"arrowstyle": "<->", "color": OTHER})
    axis.text(11, -0.5, "as long as a period, and touches two: 2ε", color=OTHER, ha="center", va="top")
    axis.set(xlim=(-1, 3 * size), ylim=(-1.1, 1.6))
    axis.axis("off")
    _save(figure, "guarantee-periods.svg")
    plt.close(figure)


def errors(path: Path, curves: Mapping[str, Sequence[tuple[int, float]]], marks: Mapping[str, int]) -> None:
    """Errors against the cap, one panel for each kind of stream, three in a row; the suggested cap is marked."""
    plt = _pyplot()
    from matplotlib.ticker import LogLocator

    rows = -(-len(curves) // 3)
    figure, axes = plt.subplots(rows, 3, figsize=(11, 2.9 * rows), layout="constrained", squeeze=False)
    for axis, (name, points) in zip(axes.flat, curves.items(), strict=False):
        caps, found = zip(*points, strict=True)
        axis.loglog(caps, found, "o-", color=OTHER, ms=4)
        axis.axvline(marks[name], color=PERSON, lw=1.5, ls="--")
        axis.axhspan(min(found), 1.2 * min(found), color=SOMEBODY, alpha=0.5, lw=0)
        axis.set_title(name.replace("), ", ")\n", 1), fontsize=9)  # on one line titles would touch
        axis.xaxis.set_major_formatter("{x:,.0f}")
        for sides in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter):
            sides("{x:g}")
        axis.yaxis.set_minor_locator(LogLocator(subs=(2, 3, 5)))
        axis.tick_params(labelsize=8, which="both")
    for axis in axes[-1]:
        axis.set_xlabel("records of a person that count")
    for row in axes:
        row[0].set_ylabel("error")
    legend = "dashed: the suggested cap     grey: within 20 % of the best     right end: ε/1,000 without a cap"
    figure.supxlabel(legend, fontsize=9, color=GREY)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    for draw in (neighbours, odds, units, periods):
        draw()
