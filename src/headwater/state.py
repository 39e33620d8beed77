"""Everything that a synthesizer needs to go on, as a value; written to a file or bytes, and read back."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np

from headwater.public import files
from headwater.public import protocol as registry
from headwater.public.budget import Budget, Guarantee, Ledger, OverdrawnError, check_delta, check_epsilon
from headwater.public.errors import TableError
from headwater.public.person import OWN
from headwater.public.protocol import AnySchema, Arrays, Header, Measured, Span, with_null_records
from headwater.public.release import release_seed
from headwater.public.schema import InputSchema, Schema, schema_from_dict
from headwater.public.tables import Values
from headwater.public.tally import BadRow, Tally, flags_of
from headwater.secret.batch import Batch, check_counts, check_rows, fastest
from headwater.secret.mechanism import Mechanism, mechanism_class
from headwater.secret.noise import GAUSSIAN_VERSION, Noise, restored_keys
from headwater.secret.people import NOBODY, SOMEBODY, People
from headwater.secret.read.batch import Batch as Lines

_STAGES, _BEGIN = 50, 7  # doublings of the time: all, and those that are checked before the first record
_BANNER = "headwater state 3: SECRET, protect it like the data it was made from"


@dataclass(frozen=True)
class State:
    """Everything that a synthesizer needs to go on. `after` gives another one; this one stays as it is."""

    schema: AnySchema
    budget: Budget
    expect: int | None
    public: bytes
    noise: Noise
    guarantee: Guarantee
    mechanism: Mechanism
    tally: Tally
    kind: str | None = None
    people: People | None = None

    @staticmethod
    def begin(
        name: str,
        schema: AnySchema,
        budget: Budget,
        expect: int | None,
        keys: tuple[Noise, bytes],
        people: People | None = None,
    ) -> State:
        noise, public = keys
        mechanism = mechanism_class(name)(schema, budget.of_record, noise, expect)
        promise = _promise(mechanism, budget, people)
        return State(schema, budget, expect, public, noise, promise, mechanism, Tally(), None, people)

    @property
    def t(self) -> int:
        return self.mechanism.t

    def encode(self, table: object, policy: str) -> Batch:
        """Records as the mechanism keeps them, in order of arrival, with what was bad or clipped in them. Pure."""
        if isinstance(table, Lines):
            return self._encode_lines(table, policy)
        if self.people is not None:
            return _encode_with_people(self.people, self.mechanism, cast("Schema", self.schema), table, policy)
        found = self.schema.encode_batch(table, bad_rows=policy)
        rows = with_null_records(self.mechanism.encode(found.points), found.flags)
        return Batch(rows, tally=found.tally, bad=found.bad)

    def _encode_lines(self, lines: Lines, policy: str) -> Batch:
        """The same for records of a file: those that could not be read are null records, perhaps of somebody."""
        try:
            found = self.encode(lines.table, policy)
        except TableError as error:
            raise lines.with_line(error) from None
        if not (lines.bad or found.bad):
            return found
        rows = np.full((lines.records, found.rows.shape[1]), np.iinfo(found.rows.dtype).max, dtype=found.rows.dtype)
        rows[lines.places] = found.rows
        named = [one for one in lines.bad if one.person is not None]
        if self.people is not None and named:
            nobody = InputSchema(cast("Schema", self.schema), self.people.person.column).nobody
            hashes, _, _ = self.people.read(Values([one.person for one in named]), None, tuple(nobody))
            null = np.full((len(named), len(self.mechanism.sizes)), np.iinfo(rows.dtype).max, dtype=rows.dtype)
            rows[[one.row for one in named]] = self.people.attached(null, hashes)
        tally, bad = (
            found.tally + Tally(len(lines.bad)).add_bad(one.error for one in lines.bad),
            lines.all_bad(found.bad),
        )
        if bad:  # with its file and line
            tally.first_bad = str(bad[0].error.without_row())
        return Batch(rows, tally=tally, bad=tuple(bad))

    def checked(self, batch: Batch, t: int | None = None) -> Batch:
        """A batch that `after` can take, perhaps from another process, or an error that says what is wrong with it."""
        width = len(self.mechanism.sizes)
        like = self.mechanism.encode(np.empty((0, self.schema.dimension)))
        if self.people is not None:
            if batch.counts is not None:
                raise ValueError("counted records have no owners: give update() the records where there is a person=")
            check_rows(self.people.split(batch.rows, width)[0], like, self.mechanism.sizes)
            return self.stamped(batch)
        batch = replace(batch, rows=check_rows(batch.rows, like, self.mechanism.sizes))
        if batch.starts is not None:
            check_counts(batch, self.t if t is None else t, lambda number: self.bucket(number, batch.until))
        return batch

    def stamped(self, batch: Batch) -> Batch:
        """A batch with the period of this moment, where periods of people go by the clock: before it is kept."""
        if self.people is None:
            return batch
        return replace(batch, rows=self.people.stamped(batch.rows, len(self.mechanism.sizes)))

    def bucket(self, number: int, until: int | None = None) -> Span:
        if not (spans := self.mechanism.spans(number)):
            raise ValueError(f"counted records need mechanism='cascade' or 'marginals', not {self.mechanism.name!r}")
        return fastest(spans, until)

    def after(self, batch: Batch, kind: str | None = None) -> State:
        """With more records, which `checked` has checked."""
        mechanism, people, tally = self.mechanism, self.people, self.tally + batch.tally
        if people is not None:
            rows, hashes, stamps = people.split(batch.rows, len(mechanism.sizes))
            counted, people = people.after(hashes, stamps, self.t, lambda t: mechanism.spans(t)[0].end)
            if not counted.all():
                rows = with_null_records(rows.copy(), ~counted)
            batch = replace(batch, rows=rows)
        for q in range(max(self.t.bit_length(), _BEGIN), (self.t + batch.records).bit_length()):
            mechanism.ledger(1 << q).check(self.budget.of_record)
        # not by `replace`, which takes longer than counting a few records
        unchanged = self.schema, self.budget, self.expect, self.public, self.noise, self.guarantee
        return State(*unchanged, mechanism.update(batch), tally, kind or self.kind, people)

    def measured(self, last: int | None, since: int | None) -> tuple[int, Measured]:
        """The seed of a release of this moment, and what it is made from: measured now, unless it was before."""
        left = window_start(self.t, last, since)
        found = self.mechanism.measured(release_seed(self.public, self.t, 0)).after(left)
        return release_seed(self.public, self.t, found.start), found

    def laws(self) -> str:
        if not self.budget.delta:
            return registry.measured(self.mechanism.name).noise
        ledgers = [self.mechanism.ledger(1 << q >> 1) for q in range(max(self.t, 1).bit_length())]
        return Ledger(spend for ledger in ledgers for spend in ledger).laws

    def facts(self) -> dict[str, Any]:
        """What everybody may know of the run, as plain values. Public."""
        return {
            "t": self.t,
            "schema": self.schema.to_dict(),
            "mechanism": self.mechanism.name,
            "guarantee": asdict(self.guarantee),
            "budget": asdict(self.budget.of_record),
            "expect": self.expect,
            "noise": self.laws(),
            "public": self.public.hex(),
            "kind": self.kind,
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        files.write_whole(path, files.pieces(_BANNER, *self._parts()), mode=0o600)

    def to_bytes(self) -> bytes:
        return files.pack(_BANNER, *self._parts())

    def _parts(self) -> tuple[Header, Arrays]:
        header, arrays = self.mechanism.state()
        header |= {
            "schema": self.schema.to_dict(),
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "mechanism": self.mechanism.name,
            "version": self.mechanism.version,
            "gaussian": GAUSSIAN_VERSION,
            "expect": self.expect,
            "key": self.noise.key.hex(),
            "public": self.public.hex(),
            "kind": self.kind,
            "tally": self.tally.to_dict(),
        }
        if self.people is not None:
            header["people"], of_people = self.people.state()
            arrays |= of_people
        return header, arrays

    @staticmethod
    def read(path: str | os.PathLike[str]) -> State:
        return _restored(files.read(path, _BANNER), str(path))

    @staticmethod
    def from_bytes(data: bytes) -> State:
        return _restored(files.unpack(data, _BANNER, "these bytes"), "these bytes")


def _promise(mechanism: Mechanism, budget: Budget, people: People | None) -> Guarantee:
    """What is promised; refused if the mechanism's draws cost more."""
    of_record = budget.of_record
    for ledger in (mechanism.ledger(), *(mechanism.ledger(1 << q) for q in range(_BEGIN))):
        ledger.check(of_record)
    if of_record.rho is not None and of_record.one_currency:
        ledgers = [mechanism.ledger(1 << q) for q in range(_STAGES)]
        in_epsilon = [ledger.total <= Fraction(of_record.epsilon) for ledger in ledgers]
        first = 0 if not of_record.epsilon_first or all(in_epsilon) else in_epsilon.index(False)
        if not all(in_epsilon) and not all(ledger.rho <= of_record.rho for ledger in ledgers[first:]):
            raise OverdrawnError("some records of a person would cost ε and others ρ, which do not add up")
    person = people.person if people else None
    found = budget.guarantee
    return found if person is None else replace(found, unit=person.unit, neighbours=person.neighbours)


def _restored(parts: tuple[dict[str, Any], Arrays], where: str) -> State:
    header, arrays = parts
    with files.assembling(where):
        kind = mechanism_class(header["mechanism"])
        rules = {f"of {kind.name}": (header["version"], kind.version)}
        if header["delta"]:
            rules["for Gaussian noise"] = header["gaussian"], GAUSSIAN_VERSION  # another rule would draw it anew
        for rule, (theirs, ours) in rules.items():
            if theirs != ours:
                raise files.FileRefusedError(
                    f"this run measures by another rule {rule} than this version does: go on with the version that it "
                    "began with, or begin a new run"
                )
        schema = schema_from_dict(header["schema"])
        budget = Budget(check_epsilon(header["epsilon"]), check_delta(header["delta"]))
        noise, public = restored_keys(header["key"], header["public"])
        people = People.restore(header["people"], arrays) if "people" in header else None
        if people is not None:
            budget = replace(budget, records=people.person.records, per_bucket=people.person.per_bucket)
        mechanism = kind.restore(schema, budget.of_record, noise, (header, arrays), header["expect"])
        tally, promise = Tally.from_dict(header["tally"]), _promise(mechanism, budget, people)
        return State(schema, budget, header["expect"], public, noise, promise, mechanism, tally, header["kind"], people)


def _encode_with_people(people: People, mechanism: Mechanism, schema: Schema, table: object, policy: str) -> Batch:
    """A batch whose records belong to people: behind what the mechanism keeps of a record is who it belongs to."""
    column = people.person.column
    nobody = tuple(InputSchema(schema, column).nobody)
    found = schema.encode_batch(table, bad_rows=policy, beside=column)
    assert found.beside is not None  # noqa: S101 - it was asked for
    unread = flags_of(list(found.unread), len(found.points)) if found.unread else None
    hashes, nowhere, errors = people.read(found.beside, unread, nobody)
    wrong: dict[int, TableError] = {row: error.at(row=row, column=column) for row, error in errors.items()}
    unnamed = (hashes == (SOMEBODY if people.person.null == OWN else NOBODY)).all(axis=1)
    unnamed[[*wrong, *found.unread]] = False
    found.tally.add(column, "missing", int(np.count_nonzero(unnamed)))
    if wrong and policy == "stop":
        raise wrong[min(wrong)]
    known = {bad.row: bad.error for bad in found.bad}
    found.tally.add_bad(error for row, error in wrong.items() if row not in known)
    wrong |= known
    bad = tuple(BadRow(row, wrong[row]) for row in sorted(wrong))
    null = nowhere | flags_of(list(wrong), len(hashes))
    rows = with_null_records(mechanism.encode(found.points), null if null.any() else None)
    return Batch(people.attached(rows, hashes), tally=found.tally, bad=bad)


def window_start(t: int, last: int | None, since: int | None) -> int:
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
