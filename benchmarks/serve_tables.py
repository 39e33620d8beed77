"""What is written to the service: a table of two columns (cascade), and one of ten (marginals)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater import Category, Integer, Number, Schema

BATCH = 10_000
_LETTERS = "abcdefgh"


@dataclass(frozen=True)
class Records:
    """A kind of records: what they are, and how they are made from a number of [0, 1)."""

    schema: Schema
    columns: dict[str, Callable[[float], object]]

    def record(self, number: int) -> bytes:
        """One record as JSON."""
        place = (number * 0.618034) % 1
        return json.dumps({name: make(place) for name, make in self.columns.items()}).encode()

    def frames(self, count: int) -> list[pa.Table]:
        """Batches for Arrow, ten different ones: every column follows the same hidden number, with noise."""
        rng, found = np.random.default_rng(1), []
        for _ in range(10):
            hidden = rng.random(BATCH)
            places = {
                name: np.clip(hidden + rng.normal(0, 0.05 * (number + 1), BATCH), 0, 0.999999)
                for number, name in enumerate(self.columns)
            }
            rows = {name: [make(place) for place in places[name].tolist()] for name, make in self.columns.items()}
            found.append(pa.table(rows))
        return [found[number % 10] for number in range(count)]


def _number(place: float) -> float:
    return round(place, 6)


NARROW = Records(
    Schema(x=Number(0, 1), writer=Category(*(f"w{number}" for number in range(16)))),
    {"x": _number, "writer": lambda place: f"w{int(16 * place)}"},
)
WIDE = Records(
    Schema(
        {f"number{i}": Number(0, 1) for i in range(4)}
        | {f"whole{i}": Integer(0, 100) for i in range(3)}
        | {f"kind{i}": Category(*_LETTERS) for i in range(3)}
    ),
    {f"number{i}": _number for i in range(4)}
    | {f"whole{i}": lambda place: int(101 * place) for i in range(3)}
    | {f"kind{i}": lambda place: _LETTERS[int(8 * place)] for i in range(3)},
)
KINDS = {"2": NARROW, "10": WIDE}
