"""What checks are run on: schemas, records that are made up, and how two releases are compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import headwater
from headwater.public.budget import Budget
from headwater.public.categorical import Category
from headwater.public.numeric import Integer, Number
from headwater.public.protocol import AnySchema
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.public.unit_cube import unit_cube
from headwater.secret.mechanism import Mechanism, mechanism_class
from headwater.secret.noise import SeededRunWarning
from headwater.synthesizer import Synthesizer

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
    """Fail with these words unless it holds."""
    if not holds:
        raise CheckFailed(otherwise)


def expect_refused(what: str, call: Callable[..., object], *arguments: object) -> None:
    """Fail unless a call raises an error that says that its arguments are wrong."""
    try:
        call(*arguments)
    except (ValueError, TypeError, OverflowError):
        return
    raise CheckFailed(f"{what} was taken, and must be refused")


@dataclass(frozen=True)
class Case:
    """A mechanism under a schema.

    ``thorough`` cases look at everything, which takes some times as long.
    """

    mechanism: str
    schema: AnySchema
    delta: float = 0.0
    thorough: bool = False

    @property
    def kind(self) -> type[Mechanism]:
        """The class of the mechanism."""
        return mechanism_class(self.mechanism)

    def budget(self, epsilon: float) -> Budget:
        """The budget of a run with this ε."""
        return Budget(epsilon, self.delta)

    def start(self, epsilon: float = 1.0) -> Synthesizer:
        """A run. All of them have the same key, so that two can be compared."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededRunWarning)
            how: dict[str, Any] = {"mechanism": self.mechanism, "seed": SEED}
            return Synthesizer(self.schema, epsilon=epsilon, delta=self.delta, **how)

    def release_once(self, n: int) -> Release:
        """The release of a run, or of a data set if the mechanism takes all records at once."""
        if self.kind.online:
            synth = self.start()
            synth.update(self.batch(n, 0))
            return synth.release()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededRunWarning)
            make: Callable[..., Release] = getattr(headwater, self.mechanism)
            return make(self.batch(n, 0), self.schema, epsilon=1.0, seed=SEED)

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
    if (one.facts, one.span, one.seed) != (other.facts, other.span, other.seed):
        return False
    (header, arrays), (other_header, other_arrays) = one.model.state(), other.model.state()
    alike = repr(header) == repr(other_header) and arrays.keys() == other_arrays.keys()
    return alike and all(np.array_equal(array, other_arrays[name]) for name, array in arrays.items())
