"""What all benchmarks share: verdicts, numbers kept as JSON, and pages that are made from these numbers alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.markdown import table as table  # for pages

FOLDER = Path(__file__).parents[1] / "docs" / "benchmarks"
SHOWN = 4  # places that a page lists where a bound was missed; the numbers are in the JSON file


@dataclass(frozen=True)
class Figure:
    """A measured number, or one for each place where it was measured, and the bound on it, if there is one."""

    what: str
    found: float | Mapping[str, float]
    unit: str = ""
    at_least: float = -math.inf
    at_most: float = math.inf
    goal: bool = False  # wished for, not demanded

    @property
    def places(self) -> Mapping[str, float]:
        """The numbers by place."""
        return self.found if isinstance(self.found, Mapping) else {"": self.found}

    @property
    def missed(self) -> dict[str, float]:
        """The places beyond the bound, the worst first."""
        beyond = {place: v for place, v in self.places.items() if not self.at_least <= v <= self.at_most}
        return dict(sorted(beyond.items(), key=lambda one: one[1], reverse=math.isfinite(self.at_most)))

    @property
    def bound(self) -> str:
        """In words; empty if there is none."""
        words = [f"at least {self.at_least:,g}"] if math.isfinite(self.at_least) else []
        words += [f"at most {self.at_most:,g}"] if math.isfinite(self.at_most) else []
        return " and ".join(words) + (" (goal)" if self.goal else "")

    @property
    def verdict(self) -> str:
        """Whether the bound holds, in a word."""
        if not self.bound:
            return ""
        if not self.places:
            return "not measured"
        if not self.missed:
            return "pass"
        return "short" if self.goal else "**miss**"

    @property
    def measured(self) -> str:
        """The number; of several, the least, the largest and how many there are."""
        values = self.places.values()
        if not values:
            return ""
        if len(values) == 1:
            return f"{number(next(iter(values)))} {self.unit}".strip()
        return f"{number(min(values))} to {number(max(values))} {self.unit}".strip() + f" ({len(values)})"

    def __str__(self) -> str:
        return f"{self.what}: {self.measured} {self.verdict}{f' ({self.bound})' if self.bound else ''}".strip()


def number(value: float, digits: int = 3) -> str:
    """To so many digits, with commas where it is large."""
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def judged(figures: Iterable[Figure]) -> str:
    """A Markdown table of figures, and a list of places where bounds are missed."""
    figures = list(figures)
    text = table(["what", "measured", "asked", ""], [[f.what, f.measured, f.bound, f.verdict] for f in figures], "lrl")
    lines = []
    for one in figures:
        if one.missed and len(one.places) > 1:
            worst = [f"{place} {number(value)}" for place, value in [*one.missed.items()][:SHOWN]]
            more = f", and {len(one.missed) - SHOWN} more" if len(one.missed) > SHOWN else ""
            lines.append(f"- {one.what}: {'; '.join(worst)}{more}.\n")
    return text + ("\nBeyond their bound:\n\n" + "".join(lines) if lines else "")


def failed(figures: Iterable[Figure]) -> bool:
    """Whether something that is demanded was measured and missed."""
    return any(one.missed and not one.goal for one in figures)


def kept(name: str) -> Any:  # noqa: ANN401 - JSON
    """The numbers of a benchmark, as `publish` has kept them."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def as_json(found: object) -> str:
    """JSON with each entry of the outermost lists on a line of its own, so that changes can be read."""
    if isinstance(found, dict):
        parts = [f" {json.dumps(name)}: {_entries(value)}" for name, value in found.items()]
        return "{\n" + ",\n".join(parts) + "\n}\n"
    return _entries(found) + "\n"


def _entries(value: object) -> str:
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        return "[\n" + ",\n".join(f"  {json.dumps(one, ensure_ascii=False)}" for one in value) + "\n]"
    return json.dumps(value, ensure_ascii=False)


def publish(
    name: str,
    found: object,
    page: Callable[[Any], str],
    draw: Callable[[Any], None] | None = None,
) -> None:
    """Keep what was measured, then make its page and its pictures from what was kept."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(as_json(found), encoding="utf-8")
    text = page(kept(name))
    (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")
    if draw is not None:
        draw(kept(name))
    print(text)


@contextmanager
def picture(name: str, rows: int, columns: int, size: tuple[float, float], **how: Any) -> Iterator[Any]:  # noqa: ANN401
    """The panels of a figure, row by row; afterwards their common legend is drawn and the picture is written."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", **how)
    yield axes
    labels: dict[str, Any] = {}
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)
        handles, names = axis.get_legend_handles_labels()
        labels |= dict(zip(names, handles, strict=True))
    if labels:
        figure.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=min(len(labels), 5), fontsize=9)
    figure.savefig(FOLDER / f"{name}.png", dpi=100)
    plt.close(figure)
