"""Everything that a synthesizer needs to go on, as a value; written to a file or bytes, and read back."""

from __future__ import annotations

import os
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from headwater import files
from headwater.arguments import options_of
from headwater.mechanisms import registry
from headwater.mechanisms.counted_parts import CountedParts
from headwater.mechanisms.protocol import (
    AnySchema,
    Arrays,
    CountingMechanism,
    Header,
    Mechanism,
    Rows,
    with_null_records,
)
from headwater.noise import GAUSSIAN_VERSION, Noise
from headwater.people.people import People
from headwater.privacy import Budget, Guarantee, OverdrawnError, check_delta, check_epsilon
from headwater.randomness import restored_keys
from headwater.table.frames import TABLE_KINDS
from headwater.table.schema import Schema, schema_from_dict
from headwater.table.tally import Tally

_STAGES = 50  # doublings of the time
_BANNER = "headwater state 2: SECRET, protect it like the data it was made from"


@dataclass(frozen=True)
class SynthesizerState:
    """Everything that a synthesizer needs to go on. An update gives another one. Secret.

    ``public`` is the key of the run's public randomness, ``kind`` the kind of table that came last, which releases
    give back, and ``people`` who has had how many records, or None if the unit is a record.
    """

    schema: AnySchema
    budget: Budget
    options: dict[str, Any]
    public: bytes
    mechanism: Mechanism
    tally: Tally
    kind: str | None
    people: People | None = None

    @staticmethod
    def begin(
        kind: type[Mechanism],
        schema: AnySchema,
        budget: Budget,
        options: dict[str, Any],
        keys: tuple[Noise, bytes],
        people: People | None = None,
    ) -> SynthesizerState:
        """Before the first record. Of people each record gets its part of ε, so that all that count cost ε."""
        noise, public = keys
        mechanism = kind(schema, budget.of_record, noise, **options)
        return SynthesizerState(schema, budget, options, public, mechanism, Tally(), None, people)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised; refused if the mechanism's draws cost more."""
        budget = self.budget.of_record
        self.mechanism.ledger().check(budget)
        if budget.rho is not None and budget.one_currency:
            rho, ledgers = budget.rho, [self.mechanism.ledger(1 << q) for q in range(_STAGES)]
            in_epsilon = [ledger.total <= Fraction(budget.epsilon) for ledger in ledgers]
            first = 0 if not budget.epsilon_first or all(in_epsilon) else in_epsilon.index(False)
            if not all(in_epsilon) and not all(ledger.rho <= rho for ledger in ledgers[first:]):
                raise OverdrawnError("some records of a person would cost ε and others ρ, which do not add up")
        found, person = self.budget.guarantee, self.people.person if self.people else None
        return found if person is None else replace(found, unit=person.unit, neighbours=person.neighbours)

    def check_doublings(self, t: int) -> None:
        """Refuse to go on to ``t`` records where the draws of a later stage would cost more than was promised."""
        for q in range(self.mechanism.t.bit_length(), t.bit_length()):
            self.mechanism.ledger(1 << q).check(self.budget.of_record)

    def checked(self, rows: NDArray[Any]) -> Rows:
        """Rows that were encoded elsewhere, or an error that says what is wrong with them."""
        if self.people is None:
            return self.mechanism.check(rows)
        of_mechanism, _, _ = self.people.split(rows, self.mechanism.width)
        self.mechanism.check(of_mechanism)
        return self.people.stamped(rows, self.mechanism.width)

    def after(self, rows: Rows, tally: Tally, kind: str | None) -> SynthesizerState:
        """With more records: a copy of the mechanism takes them, so this state stays as it is."""
        mechanism, people = copy(self.mechanism), self.people
        if people is not None:
            rows, hashes, stamps = people.split(rows, mechanism.width)
            ends = getattr(mechanism, "bucket_end", None)
            counted, people = people.after(hashes, stamps, mechanism.t, ends)
            if not counted.all():
                rows = with_null_records(rows.copy(), ~counted)
        self.check_doublings(mechanism.t + len(rows))
        mechanism.update(rows)
        return replace(self, mechanism=mechanism, tally=self.tally + tally, kind=kind or self.kind, people=people)

    def after_counts(self, counts: CountedParts, tally: Tally) -> SynthesizerState:
        """With more records, which were counted elsewhere and checked."""
        mechanism = copy(self.mechanism)
        assert isinstance(mechanism, CountingMechanism)  # noqa: S101 - the caller has checked that
        self.check_doublings(counts.until or mechanism.t + counts.records)
        for _, rows, numbers in counts.parts:
            mechanism.update_counts(rows, numbers, counts.until)
        return replace(self, mechanism=mechanism, tally=self.tally + tally)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file that only its owner can read."""
        files.write(path, _BANNER, *self._parts(), mode=0o600)

    def to_bytes(self) -> bytes:
        """What `write` writes, as bytes."""
        return files.pack(_BANNER, *self._parts())

    def _parts(self) -> tuple[Header, Arrays]:
        header, arrays = self.mechanism.state()
        header |= {
            "schema": self.schema.to_dict(),
            "epsilon": self.budget.epsilon,
            "mechanism": self.mechanism.name,
            "consistency": self.options.get("consistency", "halving"),
            "key": self.mechanism.noise.key.hex(),
            "public": self.public.hex(),
            "kind": self.kind,
            "tally": self.tally.to_dict(),
        }
        if "expect" in self.options:
            header["expect"] = self.options["expect"]
        if self.budget.delta:
            header |= {"delta": self.budget.delta, "gaussian": GAUSSIAN_VERSION}
        if self.people is not None:
            header["people"], of_people = self.people.state()
            arrays |= of_people
        return header, arrays

    @staticmethod
    def read(path: str | os.PathLike[str]) -> SynthesizerState:
        """What `write` wrote, or `headwater.files.FileRefusedError`."""
        return _restored(files.read(path, _BANNER), str(path))

    @staticmethod
    def from_bytes(data: bytes) -> SynthesizerState:
        """What `to_bytes` gave, or `headwater.files.FileRefusedError`."""
        return _restored(files.unpack(data, _BANNER, "these bytes"), "these bytes")


def _restored(parts: tuple[dict[str, Any], Arrays], where: str) -> SynthesizerState:
    header, arrays = parts
    with files.assembling(where):
        kind = registry.mechanism(header["mechanism"])
        options = options_of(kind, {name: header.get(name) for name in kind.options})
        files.need(kind.online, "mechanism")
        if header.get("version", kind.version) != kind.version:
            raise files.FileRefusedError(
                f"this run measures by another rule of {kind.name} than this version does: go on with the version that "
                "it began with, or begin a new run"
            )
        schema = schema_from_dict(header["schema"])
        budget = Budget(check_epsilon(header["epsilon"]), check_delta(header.get("delta", 0.0)))
        files.need(kind.deltas or not budget.delta, "delta")
        if budget.delta and header.get("gaussian", 1) != GAUSSIAN_VERSION:  # its noise would be drawn anew
            raise files.FileRefusedError(
                "this run drew its Gaussian noise by another rule than this version does: go on with the version "
                "that it began with, or begin a new run"
            )
        keys = restored_keys(header["key"], header["public"])
        people = People.restore(header["people"], arrays) if "people" in header else None
        if people is not None:
            budget = replace(budget, records=people.person.records, per_bucket=people.person.per_bucket)
        state = SynthesizerState.begin(kind, schema, budget, options, keys, people)
        state = replace(state, tally=Tally.from_dict(header.get("tally")), kind=header["kind"])
        files.need(len(state.public) == 32, "public")
        files.need(state.kind is None or (isinstance(schema, Schema) and state.kind in TABLE_KINDS), "kind")
        try:
            state.mechanism.restore(header, arrays)
        except files.FileRefusedError:
            raise
        except Exception as error:  # whatever it is, it comes from the file
            raise files.FileRefusedError("the state cannot be put together again") from error
        return state
