"""The page of the moving crowd: one HTML file with everything in it. NOT PRIVATE: it shows the real data."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean

import matplotlib
import numpy as np
from matplotlib.image import imsave
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PICTURED = (-10, -7, -4, -2, -1)  # of the releases: at an eighth, a quarter, a half, 0.8 and all of the day
LATE = 10  # the last releases, over which ratios are taken: from an eighth of the day on
THINNEST, DENSEST = 0.1, 100.0  # ends of the colour scale. Fixed, so that it says nothing about the data
BLIND = 0.95  # from this ratio to the W1 of uniform points on, a release is called useless
LEVELS = {"paper"}  # the mechanisms that settle their counts whenever t reaches a power of two over ε


@dataclass(frozen=True, eq=False)
class Moment:
    """One release and what it was compared with. Densities are multiples of the even density, by cell."""

    t: int
    share_of_day: float
    w1: float
    w1_offline: float
    w1_uniform: float
    real: Floats
    synthetic: Floats
    offline: Floats

    @property
    def clock(self) -> str:
        """The time of the day, from 00:00 to 24:00."""
        minutes = round(self.share_of_day * 24 * 60)
        return f"{minutes // 60:02}:{minutes % 60:02}"


@dataclass(frozen=True, eq=False)
class Day:
    """The whole run. ``fine_w1`` is the last release's W1 once more, on a grid of ``fine_side`` cells a side."""

    records: int
    epsilon: float
    mechanism: str
    moments: tuple[Moment, ...]
    records_per_second: float
    fine_side: int
    fine_w1: float


def write(day: Day, path: Path) -> None:
    """Write the page, and the folder it goes into if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(day), encoding="utf-8")


def page(day: Day) -> str:
    """The page as text. It asks for nothing from outside."""
    last = day.moments[-1]
    pictured = [day.moments[index] for index in PICTURED]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>A moving crowd and its synthetic twin</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>A moving crowd and its synthetic twin</h1>
<p class="lead">{_lead(day)}</p>
<aside class="banner" role="note"><strong>This page is NOT private.</strong> The pictures marked “real”, every W1 and
every number compared with the real data were computed from the real data without noise. Only the synthetic points
carry the privacy guarantee. This crowd is invented, so nobody is harmed; never publish such a page about real
people.</aside>
<h2>What one sees</h2>
{_verdict(day)}
<h2>Real and synthetic, side by side</h2>
<p>Each picture shows all positions up to that time on a map of {last.real.shape[0]} × {last.real.shape[1]} cells, not
only those of the last minute. All pictures share one colour scale: the density as a multiple of what evenly spread
positions would give.</p>
{_scale()}
<div class="pairs">{"".join(_pair(moment) for moment in pictured)}{_card(day)}</div>
<h2>Distance from the real data over the day</h2>
<p>W1 is how far, on average, a synthetic position has to be moved for the two sets to agree, where the square has
side 1 and a step counts by its longer coordinate. Lower is better; both axes are logarithmic.</p>
{_chart(day)}
<p class="note">{_references(day)}</p>
{_table(day)}
<p class="note">{_yardstick(day)}</p>
</main>
</body>
</html>
"""


# --- the words, from the measured numbers ---------------------------------------------------------------------


def _lead(day: Day) -> str:
    return (
        f"In one invented day {day.records:,} positions of people arrive one after another: groups walk along curved "
        "ways, grow, meet in the middle and leave again; at noon a sudden crowd forms in the south-east; a few "
        "positions are spread over the whole square. Headwater reads each position once and can publish, at any "
        "moment and as often as asked, a synthetic set with as many positions as have arrived. Here it did so "
        f"{len(day.moments)} times. All these releases together, and all that might follow, are protected by the "
        f"single budget ε = {day.epsilon:g}."
    )


def _verdict(day: Day) -> str:
    last, late = day.moments[-1], day.moments[-LATE:]
    to_offline = [moment.w1 / moment.w1_offline for moment in late]
    to_uniform = geometric_mean([moment.w1 / moment.w1_uniform for moment in late])
    typical = geometric_mean(to_offline)
    fine = last.real.shape[0]
    return (
        f"<p>After the last record the synthetic positions are at a distance W1 = <b>{last.w1:.4f}</b> from the real "
        f"ones. Over the last {LATE} releases they were typically {_against_uniform(to_uniform)} "
        f"{_against_offline(typical, to_uniform < BLIND)} "
        f"The ratio went from {_short(min(to_offline))} to {_short(max(to_offline))}.</p>"
        f"<p>In the last pair of pictures, cut into 8 × 8 large cells, real and synthetic have "
        f"<b>{_overlap(last.real, last.synthetic, 8):.0%}</b> of their positions in common (offline PMM: "
        f"{_overlap(last.real, last.offline, 8):.0%}); cut into {fine} × {fine} small ones, "
        f"<b>{_overlap(last.real, last.synthetic, fine):.0%}</b> (offline PMM: "
        f"{_overlap(last.real, last.offline, fine):.0%}). {_reason(day.mechanism, typical, to_uniform < BLIND)}</p>"
    )


def _short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _against_uniform(ratio: float) -> str:
    if ratio >= BLIND:
        return (
            "<b>no closer than positions thrown blindly</b>: at this ε and this number of records the releases tell "
            "nothing of use about where the crowd is."
        )
    return f"{_short(1 / ratio)} times closer than positions spread evenly without reading any data."


def _against_offline(ratio: float, useful: bool) -> str:
    measured = f"<b>{_short(ratio)} times</b> that of offline PMM, which spends the whole ε on one moment"
    if not useful:
        return f"Their W1 was {measured}."
    if ratio > 4:
        return f"But their W1 was {measured}: much accuracy was paid for being able to publish at any moment."
    if ratio > 1.5:
        return f"Their W1 was {measured}: some accuracy was paid for being able to publish at any moment."
    if ratio > 0.9:
        return f"Their W1 was {measured}: being able to publish at any moment cost next to nothing."
    return f"Their W1 was {measured}: on this stream publishing at any moment was the more accurate of the two."


def _reason(mechanism: str, ratio: float, useful: bool) -> str:
    if not useful:
        return "The noise outweighs the crowd: more records or a larger ε are needed."
    if ratio <= 1.5:
        return "What is still missing are details smaller than the noise allows, for both."
    reason = "A mechanism that may be asked at any moment has to share ε among all moments; offline PMM has only one."
    if mechanism == "paper":
        reason += (
            " The mechanism of this run also shares it among all depths of its partition of the square, and the "
            "counter of a cell stays silent until more records have come than most small cells ever hold. Its error "
            "falls with time at a proven rate, but from a high start: the coarse shape comes first, fine detail late."
        )
    return reason


def _references(day: Day) -> str:
    ours, offline = _slope(day, lambda moment: moment.w1), _slope(day, lambda moment: moment.w1_offline)
    return (
        f"The straight line that fits best falls like t<sup>{ours}</sup>; that of offline PMM like "
        f"t<sup>{offline}</sup>. {_rises(day)}Offline PMM is a reference, not a rival: each of its points is a run "
        f"of its own with the whole ε = {day.epsilon:g}, and publishing all {len(day.moments)} would cost "
        f"{len(day.moments) * day.epsilon:g}. The uniform points read no data. Every curve is one run; the noise is "
        "new each time the demo runs."
    )


def _rises(day: Day) -> str:
    steps = list(pairwise(moment.w1 for moment in day.moments))
    rises = sum(later > earlier for earlier, later in steps)
    if not rises or day.mechanism not in LEVELS:
        return ""
    return (
        f"W1 does not fall evenly: in {rises} of {len(steps)} steps it rose. This mechanism works in levels, which "
        "end when t reaches a power of two over ε (the coloured vertical lines). There all counts are settled at "
        "once; in between, small cells fall behind what has arrived. "
    )


def _slope(day: Day, value: Callable[[Moment], float]) -> str:
    times = np.log([moment.t for moment in day.moments])
    values = np.log([value(moment) for moment in day.moments])
    return f"{np.polyfit(times, values, 1)[0]:.2f}".replace("-", "−")


def _yardstick(day: Day) -> str:
    last, side = day.moments[-1], day.moments[-1].real.shape[0]
    return (
        f"W1 in the ℓ∞ metric, computed by min-cost flow on {side} × {side} cells with every position moved to the "
        f"centre of its cell: no value can be off by more than {1 / side:.4f}. That is a worst case: on "
        f"{day.fine_side} × {day.fine_side} cells the last value of the synthesizer is {day.fine_w1:.4f} instead "
        f"of {last.w1:.4f}. Reading and releasing went at {day.records_per_second:,.0f} records a second."
    )


def _overlap(a: Floats, b: Floats, side: int) -> float:
    """The share of positions that two maps have in common, cell by cell on a map of this side."""

    def coarse(density: Floats) -> Floats:
        block = density.shape[0] // side
        mass: Floats = density.reshape(side, block, side, block).sum(axis=(1, 3)) / density.sum()
        return mass

    return float(np.minimum(coarse(a), coarse(b)).sum())


# --- the pictures ---------------------------------------------------------------------------------------------


def _png(density: Floats, meaning: str) -> str:
    """A density as an image: first axis to the right, second axis up, colours on the logarithmic scale."""
    span = math.log(DENSEST / THINNEST)
    shade = np.log(np.maximum(density, THINNEST) / THINNEST) / span
    pixels = matplotlib.colormaps["magma"](shade.T, bytes=True)
    file = io.BytesIO()
    imsave(file, pixels, origin="lower", format="png")
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return f'<img alt="{escape(meaning)}" src="data:image/png;base64,{data}">'


def _pair(moment: Moment) -> str:
    when = f"{moment.clock}, {moment.t:,} positions"
    return (
        f'<figure class="pair"><h3>{moment.clock} <span>t = {moment.t:,}</span></h3><div class="two">'
        f'<div class="real">{_png(moment.real, f"Real density at {when}")}<p>real <em>not private</em></p></div>'
        f"<div>{_png(moment.synthetic, f'Synthetic density at {when}')}<p>synthetic <em>private</em></p></div></div>"
        f"<figcaption>W1 = <b>{moment.w1:.4f}</b> <span>offline PMM {moment.w1_offline:.4f}, "
        f"uniform {moment.w1_uniform:.4f}</span></figcaption></figure>"
    )


def _scale() -> str:
    ramp = np.geomspace(THINNEST, DENSEST, 256)[:, np.newaxis]
    marks = "".join(f"<span>{mark:g}×</span>" for mark in (0.1, 1, 10, 100))
    label = f"<p>times the even density ({THINNEST:g}× or less is black)</p>"
    return f'<div class="scale">{_png(ramp, "Colour scale")}<div class="marks">{marks}</div>{label}</div>'


def _card(day: Day) -> str:
    rows = {
        "ε": f"{day.epsilon:g} for the whole run, pure (δ = 0)",
        "Protects": "one record: one position, not a person’s whole trail (event level)",
        "Neighbours": "streams that differ in one record, replaced by another (replace-one)",
        "Covers": "all releases of the run together, without end",
        "Mechanism": escape(day.mechanism),
        "t": f"{day.moments[-1].t:,} records; how many arrived is public",
        "Seed": "none: the noise is drawn from the operating system",
        "Not covered": "the real pictures, every W1 and the comparisons on this page",
    }
    body = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows.items())
    return f'<section class="card"><h3>Privacy card</h3><dl>{body}</dl></section>'


# --- the curve ------------------------------------------------------------------------------------------------

WIDTH, HEIGHT = 860, 430
LEFT, RIGHT, TOP, BOTTOM = 70, 34, 50, 55
SERIES: tuple[tuple[str, str, Callable[[Moment], float]], ...] = (
    ("synthetic", "Headwater, at any moment", lambda moment: moment.w1),
    ("offline", "offline PMM, the whole ε once", lambda moment: moment.w1_offline),
    ("uniform", "uniform points, no data read", lambda moment: moment.w1_uniform),
)


@dataclass(frozen=True)
class _Axis:
    """A logarithmic axis from ``low`` to ``high``, drawn from pixel ``start`` to pixel ``stop``."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        return self.start + (self.stop - self.start) * math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[float]:
        """1, 2 and 5 times the powers of ten, inside the axis."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        values = [float(f"{digit}e{power}") for power in range(first, last + 1) for digit in (1, 2, 5)]
        return [value for value in values if self.low <= value <= self.high]


def _chart(day: Day) -> str:
    values = [value(moment) for _, _, value in SERIES for moment in day.moments]
    across = _Axis(day.moments[0].t * 0.9, day.records * 1.1, LEFT, WIDTH - RIGHT)
    up = _Axis(max(min(values), 1e-6) * 0.8, max(values) * 1.25, HEIGHT - BOTTOM, TOP)
    parts = [*_frame(across, up), *_legend()]
    if day.mechanism in LEVELS:
        parts += _levels(across, up, day.epsilon)
    for name, title, value in SERIES:
        places = [(across(moment.t), up(max(value(moment), up.low)), moment) for moment in day.moments]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
        parts.append(f'<polyline class="line {name}" points="{line}"/>')
        parts += (
            f'<circle class="dot {name}" cx="{x:.1f}" cy="{y:.1f}" r="4">'
            f"<title>{title}: t = {moment.t:,}, W1 = {value(moment):.4f}</title></circle>"
            for x, y, moment in places
        )
    label = "W1 against the number of records for the synthesizer, offline PMM and uniform points"
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _frame(across: _Axis, up: _Axis) -> Iterable[str]:
    for tick in across.ticks():
        x = across(tick)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{up.start}" y2="{up.stop}"/>'
        yield f'<text x="{x:.1f}" y="{up.start + 18}" text-anchor="middle">{tick:,.0f}</text>'
    for tick in up.ticks():
        y = up(tick)
        yield f'<line class="grid" x1="{across.start}" x2="{across.stop}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{across.start - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
    middle = (up.start + up.stop) / 2
    centre = (across.start + across.stop) / 2
    yield f'<text x="{centre}" y="{HEIGHT - 12}" text-anchor="middle">records so far, t</text>'
    yield f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">W1 to the real data</text>'


def _levels(across: _Axis, up: _Axis, epsilon: float) -> Iterable[str]:
    for level in range(math.ceil(math.log2(across.low * epsilon)), math.floor(math.log2(across.high * epsilon)) + 1):
        x = across(2.0**level / epsilon)
        yield f'<line class="level" x1="{x:.1f}" x2="{x:.1f}" y1="{up.start}" y2="{up.stop}"/>'


def _legend() -> Iterable[str]:
    for number, (name, title, _) in enumerate(SERIES):
        x = LEFT + 260 * number
        yield f'<line class="line {name}" x1="{x}" x2="{x + 34}" y1="22" y2="22"/>'
        yield f'<circle class="dot {name}" cx="{x + 17}" cy="22" r="4"/><text x="{x + 42}" y="26">{title}</text>'


def _table(day: Day) -> str:
    rows = "".join(
        f"<tr><td>{moment.clock}</td><td>{moment.t:,}</td><td><b>{moment.w1:.4f}</b></td>"
        f"<td>{moment.w1_offline:.4f}</td><td>{moment.w1_uniform:.4f}</td>"
        f"<td>{moment.w1 / moment.w1_offline:.1f}</td></tr>"
        for moment in day.moments
    )
    names = ("time", "t", f"W1 {escape(day.mechanism)}", "W1 offline PMM", "W1 uniform", "ratio to PMM")
    head = "".join(f"<th>{name}</th>" for name in names)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


STYLE = """
:root { --paper: #fbfaf8; --ink: #1d1f24; --soft: #5b6068; --rule: #d9d6cf; --card: #fff; --bad: #a81420;
  --synthetic: #b3357c; --offline: #1f6fb2; --uniform: #6d7178; }
@media (prefers-color-scheme: dark) { :root { --paper: #14161a; --ink: #e9e8e4; --soft: #a5a9b1; --rule: #363a42;
  --card: #1d2026; --bad: #b51d2a; --synthetic: #f07ebc; --offline: #6db5f2; --uniform: #a5a9b1; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .8rem; }
h2 { font-size: 1.35rem; margin: 2.4rem 0 .4rem; }
h3 { font-size: 1.05rem; margin: 0 0 .5rem; }
p { margin: .5rem 0 .9rem; max-width: 48rem; }
.lead { font-size: 1.08rem; }
.banner { background: var(--bad); color: #fff; padding: .9rem 1.2rem; border-radius: 8px; }
.note, h3 span, figcaption span, .scale p { color: var(--soft); font-size: .92rem; font-weight: normal; }
.pairs { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(430px, 100%), 1fr)); gap: 1.25rem; }
.pair, .card { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 1rem;
  margin: 0; }
.two { display: grid; grid-template-columns: 1fr 1fr; gap: .8rem; }
.two img { display: block; width: 100%; aspect-ratio: 1; image-rendering: pixelated; border-radius: 4px;
  outline: 1px solid var(--rule); }
.two p { margin: .35rem 0; text-align: center; }
.two em { font-style: normal; font-size: .8rem; color: var(--soft); margin-left: .3rem; }
.two .real em { background: var(--bad); color: #fff; padding: .1rem .4rem; border-radius: 4px; }
figcaption { border-top: 1px solid var(--rule); padding-top: .5rem; }
figcaption span { margin-left: .6rem; }
.scale { width: min(430px, 100%); margin: 0 0 1.2rem; }
.scale img { display: block; width: 100%; height: 16px; border-radius: 3px; outline: 1px solid var(--rule); }
.marks { display: flex; justify-content: space-between; font-size: .85rem; }
.scale p { margin: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; }
svg { display: block; width: 100%; height: auto; background: var(--card); border: 1px solid var(--rule);
  border-radius: 10px; }
svg text { fill: var(--ink); font-size: 13px; }
.grid { stroke: var(--rule); }
.level { stroke: var(--synthetic); stroke-opacity: .45; }
.line { fill: none; stroke-width: 2.4; }
.line.synthetic { stroke: var(--synthetic); } .dot.synthetic { fill: var(--synthetic); }
.line.offline { stroke: var(--offline); stroke-dasharray: 8 5; } .dot.offline { fill: var(--offline); }
.line.uniform { stroke: var(--uniform); stroke-dasharray: 2 5; } .dot.uniform { fill: var(--uniform); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; margin: 1rem 0; }
th, td { text-align: right; padding: .2rem .9rem; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
"""
