"""Two more tables of people, by which no constant of the rule that suggests caps was chosen.

In `VISITS` people with ten records or more are another kind of people: a step, where the rule expects a slope. In
`SURVEY` twenty columns hang together along a chain, and activity moves the first of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import headwater as hw

Columns = dict[str, NDArray[np.generic]]
MANY = np.log(10) / np.log(1000)  # the activity of a person with ten records

VISITS = hw.Schema(
    ward=hw.Category([f"w{i}" for i in range(9)]),
    reason=hw.Category([f"r{i}" for i in range(15)]),
    urgent=hw.Boolean(),
    age=hw.Integer(0, 99),
    stay=hw.Number(0, 1),
    shift=hw.Category("early", "late", "night"),
)
SURVEY = hw.Schema({f"q{i}": hw.Category([f"a{j}" for j in range(2 + i % 5)]) for i in range(20)})


def visits(owner: NDArray[np.int64], activity: NDArray[np.float64], seed: int) -> Columns:
    """Six columns; four of ten visits of people with many are of another kind."""
    rng, n, everyone = np.random.default_rng([seed, 6]), len(owner), int(owner.max()) + 1
    old, ill = rng.normal(50, 20, everyone)[owner], rng.integers(0, 5, everyone)[owner]
    chronic = (activity >= MANY) & (rng.random(n) < 0.4)
    reason = np.where(chronic, 12 + rng.integers(0, 3, n), (3 * ill + rng.geometric(0.4, n) - 1) % 15)
    urgent = rng.random(n) < np.where(chronic, 0.1, 0.2 + 0.04 * reason)
    shift = np.where(urgent, rng.integers(0, 3, n), rng.integers(0, 2, n))
    return {
        "ward": np.array([f"w{i}" for i in range(9)])[(reason // 2 + rng.integers(0, 2, n)) % 9],
        "reason": np.array([f"r{i}" for i in range(15)])[reason],
        "urgent": urgent,
        "age": np.clip(np.where(chronic, 70, old) + rng.normal(0, 3, n), 0, 99).astype(np.int64),
        "stay": rng.beta(1 + chronic, 4 - 2 * urgent),
        "shift": np.array(["early", "late", "night"])[shift],
    }


def survey(owner: NDArray[np.int64], activity: NDArray[np.float64], seed: int) -> Columns:
    """Twenty answers along a chain that begins with a person's own level and with how active they are."""
    rng, n, everyone = np.random.default_rng([seed, 7]), len(owner), int(owner.max()) + 1
    level = 0.4 * rng.normal(size=everyone)[owner] + activity + 0.5 * rng.normal(size=n)
    found: Columns = {}
    for i in range(20):
        size = 2 + i % 5
        place = np.clip(((level + 1.5) / 3 * size).astype(np.int64), 0, size - 1)
        found[f"q{i}"] = np.array([f"a{j}" for j in range(size)])[place]
        level = 0.85 * level + 0.4 * rng.normal(size=n)
    return found


MAKERS = {"visits": visits, "survey": survey}
