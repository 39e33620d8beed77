"""Records that golden runs take: drawn by NumPy, as plain values."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import headwater as hw

TWO = hw.Schema(minutes=hw.Number(0.5, 200, scale="log", decimals=1), riders=hw.Integer(1, 6, missing=True))
NARROW = hw.Schema(**TWO.columns, paid=hw.Category("card", "cash", other="cash"), shared=hw.Boolean())
WIDE = hw.Schema(
    day=hw.Datetime("2024-01-01", "2024-12-31", step="1d"),
    seen=hw.Datetime("2024-01-01", "2025-01-01", step="1s", missing=True),
    leaves=hw.TimeOfDay(step="5min"),
    fare=hw.Number(0, 99.99, decimals=2, missing=True),
    height=hw.Number(-1, 1),
    stops=hw.Integer(0, 40),
    back=hw.Boolean(missing=True),
    **NARROW.columns,
)


def points(n: int, d: int) -> Any:  # noqa: ANN401
    """Points in five clusters, of which one wanders."""
    rng = np.random.default_rng([n, d])
    centres, which = rng.random((5, d)), rng.integers(5, size=n)
    moved = np.where(which == 0, np.arange(n) / n * 0.4, 0.0)[:, None]
    return np.clip(centres[which] + moved + 0.03 * rng.normal(size=(n, d)), 0, 1).round(9)


@cache
def trips(n: int) -> dict[str, list[Any]]:
    """Records of `WIDE`, and `who` they belong to; None is missing."""
    rng = np.random.default_rng([n, 77])
    paid, hour = rng.choice(["card", "cash", "coin"], n, p=[0.6, 0.3, 0.1]), rng.normal(14, 4, n) % 24
    minutes = np.clip(rng.gamma(2, 8, n) * np.where(paid == "card", 1.5, 1), 0.5, 200).round(1)
    day = np.datetime64("2024-01-01") + (rng.beta(2, 3, n) * 366).astype(int)
    found = {
        "day": day.astype(str),
        "seen": _gaps(rng, 0.2, (day.astype("datetime64[s]") + (hour * 3600).astype(int)).astype(str)),
        "leaves": np.array([f"{int(h):02}:{int(h * 60) % 60:02}" for h in hour]),
        "fare": _gaps(rng, 0.05, np.minimum(2 + minutes / 4, 99.99).round(2)),
        "height": rng.normal(0, 0.3, n).clip(-1, 1).round(6),
        "stops": rng.poisson(minutes / 8).clip(0, 40),
        "back": _gaps(rng, 0.03, minutes > 30),
        "minutes": minutes,
        "riders": _gaps(rng, 0.1, rng.integers(1, 7, n)),
        "paid": paid,
        "shared": minutes > 20,
        "who": _gaps(rng, 0.05, np.char.add("p", (n / 3 * rng.random(n) ** 2).astype(int).astype(str))),
    }
    return {name: values.tolist() for name, values in found.items()}


def _gaps(rng: np.random.Generator, share: float, values: Any) -> Any:  # noqa: ANN401
    return np.where(rng.random(len(values)) < share, None, values.astype(object))


def part_of(table: Any, first: int, end: int) -> Any:  # noqa: ANN401
    """Some of the records."""
    return {name: v[first:end] for name, v in table.items()} if isinstance(table, dict) else table[first:end]


def records_of(table: Any) -> list[Any]:  # noqa: ANN401
    """The records one by one."""
    if isinstance(table, dict):
        return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    return list(np.split(table, len(table)))
