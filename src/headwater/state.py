"""Everything that a synthesizer needs to go on, as a value; written to a file or bytes, and read back."""

from __future__ import annotations

import os
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from headwater.public import files
from headwater.public.budget import Budget, Guarantee, OverdrawnError, check_delta, check_epsilon
from headwater.public.frames import TABLE_KINDS, kind_of
from headwater.public.input_schema import InputSchema
from headwater.public.person import Person
from headwater.public.protocol import AnySchema, Arrays, Header, Rows, with_null_records
from headwater.public.schema import Schema, schema_from_dict
from headwater.public.tally import Tally
from headwater.public.unit_cube import UnitCube
from headwater.secret.counts import CountedParts
from headwater.secret.mechanism import CountingMechanism, Mechanism, mechanism_class
from headwater.secret.noise import GAUSSIAN_VERSION, Noise, restored_keys
from headwater.secret.people import People


def checked_schema(schema: object) -> AnySchema:
    if not isinstance(schema, Schema | UnitCube):
        raise TypeError(f"schema must be a Schema or unit_cube(d), not {type(schema).__name__}")
    return schema


def checked_person(person: object, schema: AnySchema) -> Person:
    if not isinstance(person, Person):
        raise TypeError(f'person must be such as Person("user_id", records=20), not {type(person).__name__}')
    InputSchema(schema, person.column)  # type: ignore[arg-type]  # or refused
    return person


def options_of(kind: type[Mechanism], given: dict[str, Any]) -> dict[str, Any]:
    """What a mechanism takes by name."""
    found: dict[str, Any] = {name: values[0] for name, values in kind.options.items() if isinstance(values, tuple)}
    for name, value in given.items():
        if value is None:
            continue
        values = kind.options.get(name)
        if name == "expect":
            if whole(name, value) < 1:
                raise ValueError(f"expect must be a number of records from 1 on, not {value}")
            if values is not None:
                found[name] = whole(name, value)
            continue
        if not isinstance(values, tuple):
            raise ValueError(f"{name}= means nothing to mechanism={kind.name!r}; leave it out")
        if value not in values:
            raise ValueError(f"{name} must be one of {', '.join(values)}, not {value!r}")
        found[name] = value
    return found


def window_start(t: int, last: int | None, since: int | None) -> int:
    """How many of the first records a release leaves out."""
    if last is not None and since is not None:
        raise ValueError("give last= or since=, not both")
    if last is not None:
        if whole("last", last) < 1:
            raise ValueError(f"last must be at least 1, not {last}")
        return max(t - last, 0)
    if since is not None and not 0 <= whole("since", since) <= t:
        raise ValueError(f"since must lie between 0 and the number of records so far, {t}, but is {since}")
    return since or 0


def whole(what: str, number: object) -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{what} must be a whole number, not {type(number).__name__}")
    return int(number.__index__())


def table_kind(schema: AnySchema, table: object) -> str | None:
    return kind_of(table) if isinstance(schema, Schema) else None


_STAGES = 50  # doublings of the time
_BANNER = "headwater state 2: SECRET, protect it like the data it was made from"


@dataclass(frozen=True)
class SynthesizerState:
    """Everything that a synthesizer needs to go on."""

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
        for q in range(self.mechanism.t.bit_length(), t.bit_length()):
            self.mechanism.ledger(1 << q).check(self.budget.of_record)

    def checked(self, rows: NDArray[Any]) -> Rows:
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
        mechanism = copy(self.mechanism)
        assert isinstance(mechanism, CountingMechanism)  # noqa: S101 - the caller has checked that
        self.check_doublings(counts.until or mechanism.t + counts.records)
        for _, rows, numbers in counts.parts:
            mechanism.update_counts(rows, numbers, counts.until)
        return replace(self, mechanism=mechanism, tally=self.tally + tally)

    def write(self, path: str | os.PathLike[str]) -> None:
        files.write(path, _BANNER, *self._parts(), mode=0o600)

    def to_bytes(self) -> bytes:
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
        return _restored(files.read(path, _BANNER), str(path))

    @staticmethod
    def from_bytes(data: bytes) -> SynthesizerState:
        return _restored(files.unpack(data, _BANNER, "these bytes"), "these bytes")


def _restored(parts: tuple[dict[str, Any], Arrays], where: str) -> SynthesizerState:
    header, arrays = parts
    with files.assembling(where):
        kind = mechanism_class(header["mechanism"])
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
