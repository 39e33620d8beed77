"""The pictures of the accuracy benchmark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

from benchmarks.accuracy_cases import BLIND, CASCADE, EPSILONS, GRID, HEADLINE, MECHANISMS, PAPER, PMM, RERUN
from benchmarks.accuracy_numbers import Measured, Numbers
from benchmarks.streams import STREAMS

LOOK = {CASCADE: ("C0", "o-"), PAPER: ("C3", "s-"), PMM: ("C2", "^-"), RERUN: ("C1", "v-"), BLIND: ("0.55", ":")}
LABEL = {
    CASCADE: "cascade",
    PAPER: "the paper's mechanism",
    PMM: "offline PMM, all of ε on one release",
    RERUN: "PMM rerun 128 times",
    BLIND: "no data read",
}


def draw(numbers: Numbers, out: Path) -> None:
    """All of them."""
    mpl.use("Agg")
    _headline(numbers, out / "accuracy-headline.png")
    lengths = sorted({m.setting.length for m in numbers.of(CASCADE, GRID)})
    _panels(
        numbers,
        out / "accuracy-time.png",
        "W1 against t at ε = 1: mean and standard deviation over seeds",
        "t",
        lambda m: m.setting.length if m.setting.epsilon == 1 else None,
    )
    longest = max(length for length in lengths if length <= 100_000)
    _panels(
        numbers,
        out / "accuracy-epsilon.png",
        f"W1 against ε at t = {longest:,}: mean and standard deviation over seeds",
        "ε",
        lambda m: m.setting.epsilon if m.setting.length == longest else None,
    )
    _foretold(numbers, out / "accuracy-expected.png")


def _headline(numbers: Numbers, path: Path) -> None:
    figure, panel = plt.subplots(figsize=(11, 5))
    width = 0.16
    for i, mechanism in enumerate(MECHANISMS):
        measured = [numbers(HEADLINE, stream, 2, mechanism) for stream in STREAMS]
        at = np.arange(len(measured)) + (i - 2) * width
        heights = [m.mean for m in measured]
        panel.bar(at, heights, width * 0.92, yerr=[m.deviation for m in measured], color=LOOK[mechanism][0],
                  label=LABEL[mechanism], capsize=2, error_kw={"lw": 0.8})  # fmt: skip
        if mechanism in (CASCADE, PMM):
            for x, height in zip(at, heights, strict=True):
                panel.annotate(f"{height:.2f}", (x, 0.235), ha="center", fontsize=7, color="white", rotation=90)
    panel.set_xticks(range(len(STREAMS)), list(STREAMS))
    panel.set(yscale="log", ylim=(0.2, 400), ylabel="W1·√t, mean over t = 70,000 … 130,000")
    panel.set_title("Error in the plane at ε = 1 (lower is better; bars start at 0.2; whiskers: seeds)")
    panel.grid(axis="y", alpha=0.3)
    panel.legend(ncols=3, fontsize=9, loc="upper left")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panels(numbers: Numbers, path: Path, title: str, label: str, place: Callable[[Measured], float | None]) -> None:
    dimensions = sorted({m.setting.d for m in numbers.of(CASCADE, GRID)})
    figure, axes = plt.subplots(
        len(dimensions), len(STREAMS), figsize=(2.5 * len(STREAMS), 2.7 * len(dimensions)), sharex=True, sharey="row"
    )
    for row, d in zip(axes, dimensions, strict=True):
        for panel, stream in zip(row, STREAMS, strict=True):
            for mechanism in reversed(MECHANISMS):
                here = [m for m in numbers.of(mechanism, GRID) if (m.setting.d, m.setting.stream) == (d, stream)]
                points = sorted((x, m) for m in here if (x := place(m)) is not None) if here else []
                values = [np.array(m.w1)[:, -1] for _, m in points]
                if not points:
                    continue
                colour, style = LOOK[mechanism]
                mean, spread = [v.mean() for v in values], [v.std(ddof=1) for v in values]
                low = [min(s, 0.9 * v) for s, v in zip(spread, mean, strict=True)]  # a log axis has no zero
                at, look = [x for x, _ in points], {"color": colour, "ms": 4, "lw": 1.2, "capsize": 2}
                panel.errorbar(at, mean, (low, spread), fmt=style, label=LABEL[mechanism], **look)
            panel.set(xscale="log", yscale="log")
            panel.yaxis.set_major_locator(LogLocator(numticks=8))
            if label == "ε":
                panel.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
                panel.xaxis.set_minor_formatter(NullFormatter())
            panel.grid(alpha=0.3)
            if d == dimensions[0]:
                panel.set_title(stream)
            if d == dimensions[-1]:
                panel.set_xlabel(label)
            if not panel.lines and not panel.collections:
                panel.text(0.5, 0.5, "three columns\nonly", ha="center", transform=panel.transAxes, color="0.5")
        row[0].set_ylabel(f"W1, d = {d}")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="lower center", ncols=len(labels))
    figure.suptitle(title)
    figure.tight_layout(rect=(0, 0.035, 1, 1))
    figure.savefig(path, dpi=80)
    plt.close(figure)


def _foretold(numbers: Numbers, path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(11, 5))
    found = list(numbers.foretold())
    for i, d in enumerate(sorted({f.setting.d for f in found})):
        here = [f for f in found if f.setting.d == d]
        upper, true = np.array([f.upper for f in here]), np.array([f.w1 for f in here])
        axes[0].plot(upper, true, ".", color=f"C{i}", ms=4, alpha=0.6, label=f"d = {d}")
        ratio = np.sort(upper / true)
        axes[1].plot(ratio, np.arange(1, len(ratio) + 1) / len(ratio), color=f"C{i}", label=f"d = {d}")
    ends = np.array([min(f.w1 for f in found), 1.0])
    axes[0].plot(ends, ends, "k--", lw=1, label="equal: above it, the error was underrated")
    axes[0].set(xscale="log", yscale="log", xlabel="expected_error().upper", ylabel="true W1")
    axes[0].set_title("Every release of cascade")
    axes[1].axvline(1, color="k", ls="--", lw=1)
    axes[1].axhline(0.1, color="0.5", ls=":", lw=1, label="one case in ten")
    axes[1].set(xscale="log", xlabel="upper / true W1", ylabel="share of releases at or below")
    axes[1].set_title("How far the promise lies above the truth")
    for panel in axes:
        panel.grid(alpha=0.3)
        panel.legend(fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
