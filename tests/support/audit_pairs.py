"""Pairs of streams that tests of the promise use besides the auditor's own: longer, of people in pairs, at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headwater.audit import Case, Pair
from headwater.audit.cases import BELOW_HALF, MOST, Points, heap, kind_of_pair, moments, people, replaced, with_delta
from headwater.public import protocol as registry
from headwater.public.budget import Budget, record_epsilon
from headwater.public.cascade.plan import plan as cascade_plan
from headwater.public.marginals.plan import plan as marginals_plan
from headwater.public.numbers import Number
from headwater.public.schema import Schema
from headwater.secret.mechanism import mechanism_class

SCHEMA = Schema(x0=Number(0, 1), x1=Number(0, 1))


def crowd(length: int, dimension: int, seed: int = 0) -> Points:
    """Points everywhere, more of them near the origin."""
    return np.random.default_rng(seed).beta(1.5, 3, size=(length, dimension))


def long_cascade(dimension: int, epsilon: float, until: int) -> Case:
    """A point in the last step of the first fastest bucket after the middle of a slow one, and every tree is split.

    Too slow to sample, not too slow to trace.
    """
    stage = cascade_plan(dimension, Budget(epsilon), until).stages[-1]
    sizes = [scale.size for scale in stage.timescales]
    middle = stage.start + sizes[0] // 2
    times = tuple(sorted({stage.start, middle, *(middle + size for size in sizes[1:]), stage.start + sizes[0]}))
    pair = kind_of_pair("corner", crowd(times[-1], dimension), middle + sizes[-1] - 1)
    return Case(f"a bucket of each of {len(sizes)} timescales", "cascade", epsilon, pair, times)


def people_in_pairs(epsilon: float, records: int = 3, delta: float = 0.0) -> list[Case]:
    """People in marginals of two columns, from the first stage up to the first one in which pairs are measured."""
    budget = Budget(epsilon, delta, records=records).of_record
    stages = marginals_plan(SCHEMA.dimension, budget, MOST).stages
    first = next(i for i, stage in enumerate(stages) if stage.pairs)
    ends = tuple(stage.end for stage in stages[max(first - 1, 0) : first + 1])
    return with_delta(people("marginals", epsilon, records, columns=2, ends=ends), delta)


def released_people(mechanism: str, epsilon: float, delta: float = 0.0, records: int = 2) -> list[Case]:
    """People in whole releases of two columns, after the first measurement: ε is so small that sampling can see it."""
    first = moments(mechanism, SCHEMA, record_epsilon(epsilon, records))[:1]
    found = people(mechanism, epsilon, records, columns=2, ends=first)
    return with_delta((replace(one, reloads=()) for one in found), delta)


def random_pair(length: int, dimension: int, rng: np.random.Generator) -> Pair:
    """A pair of any kind: backgrounds from heaps to crowds, any position, often on cuts, faces or deep in a cell."""
    backgrounds = [
        heap(length, dimension, float(rng.choice([0.1, 0.5, 0.9, 1.0, BELOW_HALF]))),
        crowd(length, dimension, int(rng.integers(1 << 30))),
        rng.choice([0.0, 0.1, 0.5, BELOW_HALF, 1.0], size=(length, dimension)),
        np.where(np.arange(length)[:, None] % 2 == 0, 0.1, 0.9) + np.zeros((length, dimension)),
    ]
    background = backgrounds[int(rng.integers(len(backgrounds)))]
    position = int(rng.choice([0, length - 1, int(rng.integers(length))]))
    choices = np.array([0.0, 0.1, 0.25, 0.5, BELOW_HALF, 0.9, 1.0])
    while True:
        one, other = rng.choice(choices, dimension), rng.choice(choices, dimension)
        if (one != other).any():
            return replaced(background, position, one, other)


def at_random(count: int, seed: int) -> list[Case]:
    """Pairs, budgets, dimensions and moments at random."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        mechanism, noisy_counts = str(rng.choice(registry.online())), bool(rng.integers(2))
        dimension, epsilon = int(rng.integers(1, 4)), float(rng.choice([1.0, 2.0, 4.0, 8.0, 16.0]))
        length = int(rng.integers(4, 40)) if epsilon > 2 else int(rng.integers(30, 90))
        pair = random_pair(length, dimension, rng)
        times = tuple(sorted({length, *(int(rng.integers(1, length + 1)) for _ in range(3))}))
        window = int(rng.integers(1, length + 1))
        windows = (window,) if mechanism_class(mechanism).windows and not noisy_counts else ()
        name = f"{mechanism}, random pair {number}"
        found.append(Case(name, mechanism, epsilon, pair, times, windows, noisy_counts=noisy_counts))
    return found
