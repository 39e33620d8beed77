"""What checks are run on: schemas, records that are made up, and how two releases are compared."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.public import protocol as registry
from headwater.public.budget import Budget
from headwater.public.categories import Category
from headwater.public.cube import unit_cube
from headwater.public.numbers import Integer, Number
from headwater.public.protocol import AnySchema, State
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.secret.mechanism import Mechanism, mechanism_class
from headwater.secret.noise import SeededRunWarning
from headwater.synthesizer import Synthesizer, pmm

SEED = 11
TABLE = Schema(
    size=Number(0, 10),
    age=Integer(0, 120, missing=True, outside="error"),
    paid=Category("card", "cash", "other", other="other"),
)
SCHEMAS: dict[str, AnySchema] = {"line": unit_cube(1), "square": unit_cube(2), "cube": unit_cube(3), "table": TABLE}


class CheckFailed(AssertionError):  # noqa: N818 - it is the mechanism that fails
    """A mechanism does something that no mechanism may do."""


def expect(holds: object, otherwise: str) -> None:
    if not holds:
        raise CheckFailed(otherwise)


@dataclass(frozen=True)
class Case:
    """A mechanism under a schema, and the δ of the budgets of its runs."""

    mechanism: str
    schema: AnySchema
    delta: float = 0.0

    @property
    def online(self) -> bool:
        return self.mechanism in registry.online()

    @property
    def kind(self) -> type[Mechanism]:
        return mechanism_class(self.mechanism)

    def budget(self, epsilon: float) -> Budget:
        return Budget(epsilon, self.delta)

    def start(self, epsilon: float = 1.0) -> Synthesizer:
        """A run. All of them have the same key, so that two can be compared."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededRunWarning)
            how: dict[str, Any] = {"mechanism": self.mechanism, "seed": SEED}
            return Synthesizer(self.schema, epsilon=epsilon, delta=self.delta, **how)

    def release_once(self, n: int, epsilon: float = 1.0) -> Release:
        """The release of a run, or of a data set if there is one release only."""
        if self.online:
            synth = self.start(epsilon)
            synth.update(self.batch(n, 0))
            return synth.release()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededRunWarning)
            return pmm(self.batch(n, 0), self.schema, epsilon=epsilon, seed=SEED)

    def batch(self, n: int, seed: int) -> Any:  # noqa: ANN401 - an array of points, or a list of records
        """Records that are made up: the same for the same seed."""
        rng = np.random.default_rng(seed)
        if not isinstance(self.schema, Schema):
            return rng.beta(0.5, 3, (n, self.schema.dimension))
        ages = [None if age > 110 else int(age) for age in rng.integers(0, 121, n)]
        paid, sizes = rng.choice(["card", "cash", "shells"], n).tolist(), rng.gamma(2, 2, n).tolist()
        return [{"size": s, "age": a, "paid": p} for s, a, p in zip(sizes, ages, paid, strict=True)]

    def bad_batch(self, n: int, seed: int) -> Any:  # noqa: ANN401 - as `batch`
        """A batch whose last record is not one."""
        batch, which = self.batch(n + 1, seed), seed % 4
        if isinstance(self.schema, Schema):
            wrong: list[dict[str, object]] = [{"size": None}, {"age": 300}, {"paid": None}, {"more": 1}]
            batch[-1] = batch[-1] | wrong[which]
        else:
            batch[-1, 0] = (np.nan, -0.1, 1.5, np.inf)[which]
        return batch


def same(one: Release, other: Release) -> bool:
    """Whether two releases are alike in all that they say. What kind of table came in last is not compared."""
    facts = [(release.facts, release.span, release.seed) for release in (one, other)]
    return facts[0] == facts[1] and said(one.model.state()) == said(other.model.state())


def said(state: State) -> list[tuple[str, bytes]]:
    """All of a state, as something that can be compared."""
    header, arrays = state
    return [
        (repr(header), b""),
        *((f"{name} {array.dtype} {array.shape}", array.tobytes()) for name, array in sorted(arrays.items())),
    ]
