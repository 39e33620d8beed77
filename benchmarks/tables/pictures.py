"""Pictures of the benchmark of wide tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from benchmarks.tables.cases import EXPECTING
from benchmarks.tables.data import NAMES
from benchmarks.tables.results import Numbers

STYLES: dict[str, tuple[str, str, str]] = {
    "marginals": ("#0b6e99", "o-", "Headwater, online"),
    EXPECTING: ("#0b6e99", "*", "the same, expecting t records"),
    "marginals, δ": ("#0b6e99", "o:", "Headwater, δ = 1e-9"),
    "cascade": ("#8fb9c9", "o-", "cascade, online"),
    "mst rerun": ("#d0a04a", "D", "MST rerun at 128 checkpoints, ε split"),
    "mst rerun, zcdp": ("#d0a04a", "d", "the same, ρ split"),
    "mst": ("#b3402f", "s", "MST, offline, δ = 1e-9"),
    "aim": ("#5f3f7f", "^", "AIM, offline, δ = 1e-9"),
    "independent": ("#7a7a7a", ".--", "independent marginals, offline"),
}


def draw(numbers: Numbers, folder: Path) -> None:
    """All pictures, as PNG."""
    mpl.use("Agg")
    _by_time(numbers, folder / "tables-time.png")
    if len({row.case.epsilon for row in numbers.rows}) > 1:
        _by_epsilon(numbers, folder / "tables-epsilon.png")


def _by_time(numbers: Numbers, path: Path) -> None:
    names = [name for name in NAMES if any(row.case.table == name for row in numbers.rows)]
    figure, axes = plt.subplots(2, (len(names) + 1) // 2, figsize=(13, 6.4), squeeze=False)
    for axis, name in zip(axes.flat, names, strict=False):
        for method, style in STYLES.items():
            places = [place for place in numbers.places(method) if place[0] == name and place[2] == 1]
            _line(axis, [t for _, t, _ in places], [numbers.two_way(method, place) for place in places], style)
        axis.set_title(name, fontsize=10)
        axis.set_xscale("log", base=2)
    _finish(figure, axes, len(names), "records t", path)


def _by_epsilon(numbers: Numbers, path: Path) -> None:
    measured = {name for method in ("independent", "mst") for name, _, _ in numbers.places(method)}
    names = [name for name in NAMES if name in measured]
    figure, axes = plt.subplots(2, (len(names) + 1) // 2, figsize=(13, 6.4), squeeze=False)
    for axis, name in zip(axes.flat, names, strict=False):
        with_mst = [t for table, t, epsilon in numbers.places("mst") if table == name and epsilon != 1]
        t = max(
            with_mst or [t for table, t, _ in (*numbers.places("independent"), *numbers.places("mst")) if table == name]
        )
        for method, style in STYLES.items():
            places = [place for place in numbers.places(method) if place[:2] == (name, t)]
            _line(axis, [place[2] for place in places], [numbers.two_way(method, place) for place in places], style)
        axis.set_title(f"{name}, t = {t:,}", fontsize=10)
        axis.set_xscale("log", base=2)
        axis.set_xticks([0.5, 1, 4], ["0.5", "1", "4"])
    _finish(figure, axes, len(names), "ε", path)


def _line(axis: Axes, xs: list[float] | list[int], ys: list[float | None], style: tuple[str, str, str]) -> None:
    colour, shape, label = style
    known = [(x, y) for x, y in zip(xs, ys, strict=True) if y is not None]
    if known:
        axis.plot(*zip(*known, strict=True), shape, color=colour, label=label, markersize=4, linewidth=1.3)


def _finish(figure: Figure, axes: NDArray[Any], used: int, x: str, path: Path) -> None:
    labels: dict[str, Any] = {}
    for axis in axes.flat[:used]:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(FormatStrFormatter("%.3g"))
        axis.yaxis.set_minor_formatter(NullFormatter())
        axis.set_xlabel(x, fontsize=8)
        axis.set_ylabel("two-way total variation", fontsize=8)
        axis.tick_params(labelsize=7, which="both")
        axis.grid(alpha=0.25, which="both", linewidth=0.5)
        handles, names = axis.get_legend_handles_labels()
        labels |= dict(zip(names, handles, strict=True))
    for axis in axes.flat[used:]:
        axis.axis("off")
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.legend(labels.values(), labels.keys(), fontsize=9, ncols=4, loc="lower center", frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
