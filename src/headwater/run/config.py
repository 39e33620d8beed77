"""What never changes during a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwater.public import protocol as registry
from headwater.public.errors import quoted
from headwater.public.file_options import CHANGING
from headwater.public.person import Person
from headwater.public.protocol import AnySchema
from headwater.public.schema import schema_from_dict
from headwater.run.store import Store, StoreError
from headwater.secret.mechanism import mechanism_class
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
        """As JSON, the way a state keeps it."""
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
            "expect": self.expect if "expect" in mechanism_class(mechanism).options else None,
        }

    @staticmethod
    def of(store: Store) -> RunConfig:
        """The configuration that a state was begun with."""
        kept = store.config
        person = kept.get("person")
        return RunConfig(
            schema_from_dict(kept["schema"]),
            kept["epsilon"],
            kept["mechanism"],
            kept.get("seed"),
            kept.get("delta", 0.0),
            None if person is None else Person.from_dict(person),
            kept.get("expect"),
        )

    def synthesizer(self) -> Synthesizer:
        """A new synthesizer under this configuration."""
        how = {"mechanism": self.mechanism, "seed": self.seed, "person": self.person, "expect": self.expect}
        return Synthesizer(self.schema, epsilon=self.epsilon, delta=self.delta, **how)  # type: ignore[arg-type]

    def matches(self, store: Store) -> bool:
        """Whether a state was begun under this configuration."""
        return not self._different(store)

    def refuse_other(self, store: Store) -> None:
        """Raise an error that names what is different, if a state was begun under another configuration."""
        if different := self._different(store):
            kept_numbers = {
                name: f" (--{name} {store.config.get(name, 0.0)!r})" for name in ("epsilon", "delta", "expect")
            }
            if store.config.get("expect") is None:
                kept_numbers["expect"] = " (none: leave out --expect)"
            said = [name + kept_numbers.get(name, "") for name in different]
            problem = f"this run was begun with another {' and another '.join(said)}"
            remedy = "give the command that it was begun with, or another --state for a new run, which spends its own ε"
            if "person" in different:
                kept, given = (config.person for config in (RunConfig.of(store), self))
                was = "one record, without a person" if kept is None else str(kept)
                if kept is None:
                    settings = "none: leave out --person"
                elif given is None:
                    settings = f"named by the column {quoted(kept.column)}: give it as --person"
                else:
                    old, new = kept.to_dict(), given.to_dict()
                    settings = ", ".join(f"{name} = {old[name]!r}" for name in old if old[name] != new[name])
                problem += f" ({settings})"
                problem += f"; that cannot change, since ε is promised for {was}"
            raise StoreError(store.path, problem, remedy)

    def _different(self, store: Store) -> list[str]:
        kept = {"delta": 0.0} | store.config  # states from before there was a δ
        given = self.to_dict()
        if self.mechanism == registry.AUTO:
            del given["mechanism"]
        if self.expect is None:
            del given["expect"]
        return [name for name, value in given.items() if kept.get(name) != value]
