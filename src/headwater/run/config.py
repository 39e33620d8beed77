"""What never changes during a run, when it publishes, and how much."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.public import protocol as registry
from headwater.public.errors import quoted
from headwater.public.person import Person, microseconds
from headwater.public.protocol import AnySchema
from headwater.public.schema import CHANGING
from headwater.run.lock import StoreError
from headwater.synthesizer import Synthesizer


@dataclass(frozen=True)
class RunConfig:
    """What never changes during a run; a state continues under the configuration it was begun with, and no other.

    Parameters
    ----------
    schema
        What a record is.
    epsilon
        The privacy budget of the whole run.
    delta
        By how much probabilities may differ beyond the factor of ε; 0 for pure ε.
    mechanism
        The name of the mechanism. ``"auto"`` continues a state with the mechanism that it has, and begins a new one
        with the one that `headwater.public.protocol.choose` names.
    seed
        For tests only: a seeded run protects nobody.
    person
        Who records belong to, if ε is for all records of one person.
    expect
        How many records are expected in all (`headwater.Synthesizer`). None continues a state with what it was begun
        with.
    """

    schema: AnySchema
    epsilon: float
    mechanism: str = registry.AUTO
    seed: int | None = None
    delta: float = 0.0
    person: Person | None = None
    expect: int | None = None

    def to_dict(self) -> dict[str, Any]:
        schema = self.schema.to_dict()
        for key in CHANGING:
            schema.pop(key, None)
        mechanism = registry.resolved(self.mechanism, self.schema)
        return {
            "schema": schema,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "mechanism": mechanism,
            "seed": self.seed,
            "person": None if self.person is None else self.person.to_dict(),
            "expect": self.expect,
        }

    def synthesizer(self) -> Synthesizer:
        how = {"mechanism": self.mechanism, "seed": self.seed, "person": self.person, "expect": self.expect}
        return Synthesizer(self.schema, epsilon=self.epsilon, delta=self.delta, **how)  # type: ignore[arg-type]

    def refuse_other(self, path: Path, kept: dict[str, Any]) -> None:
        """Raise an error that names what is different, if a state was begun under another configuration."""
        if not (different := self.different(kept)):
            return
        said = []
        for name in different:
            option = f"--{name} {kept[name]!r}" if kept[name] is not None else f"none: leave out --{name}"
            said.append(name + (f" ({option})" if name in ("epsilon", "delta", "expect") else ""))
        problem = f"this run was begun with another {' and another '.join(said)}"
        if "person" in different:
            was = Person.from_dict(kept["person"]) if kept["person"] else None
            how = f"--person {quoted(was.column)}" if was else "none: leave out --person"
            if was and self.person:
                new = self.person.to_dict()
                how = ", ".join(f"{name} = {value!r}" for name, value in was.to_dict().items() if value != new[name])
            problem += f" ({how}); that cannot change, since ε is promised for {was or 'one record, without a person'}"
        remedy = "give the command that it was begun with, or another --state for a new run, which spends its own ε"
        raise StoreError(path, problem, remedy)

    def different(self, kept: dict[str, Any]) -> list[str]:
        """What is not as in the configuration that a state was begun under."""
        given = self.to_dict()
        if self.mechanism == registry.AUTO:
            del given["mechanism"]
        if self.expect is None:
            del given["expect"]
        return [name for name, value in given.items() if kept[name] != value]


@dataclass(frozen=True)
class Schedule:
    """When to publish: at every multiple of so many records, or after so many seconds. Without either, never.

    Both are public: the number of records and the time of day are the same whatever one record holds. The clock is
    compared only between batches, and a batch ends after a number of records or when the input is idle, never at a
    place that the text of a record decides. A time *in* the records is not offered: the moment of a release would then
    reveal a value.

    Parameters
    ----------
    records
        Publish whenever ``t`` is a multiple of this.
    seconds
        Publish at the end of the first batch after so many seconds.

    Examples
    --------
    >>> Schedule.parse("10_000"), Schedule.parse("1h")
    (Schedule(records=10000, seconds=None), Schedule(records=None, seconds=3600.0))
    """

    records: int | None = None
    seconds: float | None = None

    @staticmethod
    def parse(text: str) -> Schedule:
        """Read ``10000``, ``30s``, ``15min``, ``1h`` or ``1d``.

        Parameters
        ----------
        text
            A number of records, or a length of time.
        """
        plain = text.strip().replace("_", "").replace(",", "").lower()
        if plain.isascii() and plain.isdigit() and int(plain[:18]) > 0 and len(plain) <= 18:
            return Schedule(records=int(plain))
        if length := microseconds(plain):
            return Schedule(seconds=float(length / 10**6))
        raise ValueError(
            f"{text!r} is neither a number of records nor a length of time; write for example 10000, 30s, 15min or 1h"
        )

    def next_due(self, t: int) -> int | None:
        """The first number of records after ``t`` at which the number alone says so; None if it never does."""
        return None if self.records is None else t + self.records - t % self.records


ROWS, KEEP = 1_000_000, 100
"""The most rows of a published table, and how many releases keep their tables."""


def limit(option: str, given: str | int) -> int | None:
    plain = str(given).strip().lower().replace("_", "").replace(",", "")
    if plain == "all":
        return None
    if not (plain.isascii() and plain.isdigit() and len(plain) <= 18 and int(plain)):
        raise ValueError(f"{option} must be a whole number from 1 on, or all, not {given!r}")
    return int(plain)
