"""Conformance checks: what every mechanism must pass, whoever wrote it.

They assume nothing of how a mechanism works: not cells, not trees, not how wide its rows are.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from headwater.audit.cases import (
    DELTA,
    TRAITS,
    Case,
    Traits,
    bad_records,
    people,
    tables,
    traits_of,
    with_delta,
    worst_cases,
)
from headwater.audit.exact import Loss, check_counting, check_ledgers, check_sensitivity
from headwater.audit.trace import watching
from headwater.public import files, protocol
from headwater.public.budget import Budget, DeltaWarning, Spend
from headwater.public.categories import Category
from headwater.public.cube import unit_cube
from headwater.public.numbers import Integer, Number
from headwater.public.protocol import AnySchema, Rows, Span, State
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.secret.batch import Batch, count_by_bucket, fastest
from headwater.secret.mechanism import Mechanism, mechanism_class
from headwater.secret.noise import Noise, SeededRunWarning
from headwater.secret.pmm import ledger as pmm_ledger
from headwater.synthesizer import Synthesizer, pmm

SEED = 11
TABLE = Schema(
    size=Number(0, 10),
    age=Integer(0, 120, missing=True, outside="error"),
    paid=Category("card", "cash", "other", other="other"),
)
SCHEMAS: dict[str, AnySchema] = {"line": unit_cube(1), "square": unit_cube(2), "cube": unit_cube(3), "table": TABLE}
EPSILON = 192.0  # of a person: so that buckets are short
IN_RHO = 4.0  # so that, with the δ of the cases, noise is Gaussian


class CheckFailed(AssertionError):  # noqa: N818 - it is the mechanism that fails
    """A mechanism does something that no mechanism may do."""


def expect(holds: object, otherwise: str) -> None:
    if not holds:
        raise CheckFailed(otherwise)


@dataclass(frozen=True)
class Subject:
    mechanism: str
    schema: AnySchema
    delta: float = 0.0

    @property
    def online(self) -> bool:
        return self.mechanism in protocol.online()

    @property
    def kind(self) -> type[Mechanism]:
        return mechanism_class(self.mechanism)

    def budget(self, epsilon: float) -> Budget:
        return Budget(epsilon, self.delta)

    def start(self, epsilon: float = 1.0) -> Synthesizer:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededRunWarning)
            how: dict[str, Any] = {"mechanism": self.mechanism, "seed": SEED}
            return Synthesizer(self.schema, epsilon=epsilon, delta=self.delta, **how)

    def release_once(self, n: int, epsilon: float = 1.0) -> Release:
        if self.online:
            synth = self.start(epsilon)
            synth.update(self.batch(n, 0))
            return synth.release()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededRunWarning)
            return pmm(self.batch(n, 0), self.schema, epsilon=epsilon, seed=SEED)

    def batch(self, n: int, seed: int) -> Any:  # noqa: ANN401 - an array of points, or a list of records
        rng = np.random.default_rng(seed)
        if not isinstance(self.schema, Schema):
            return rng.beta(0.5, 3, (n, self.schema.dimension))
        ages = [None if age > 110 else int(age) for age in rng.integers(0, 121, n)]
        paid, sizes = rng.choice(["card", "cash", "shells"], n).tolist(), rng.gamma(2, 2, n).tolist()
        return [{"size": s, "age": a, "paid": p} for s, a, p in zip(sizes, ages, paid, strict=True)]

    def begin(self, noise: Noise, epsilon: float = 8.0) -> Mechanism:
        return self.kind(self.schema, self.budget(epsilon), noise)

    def seen(self, measured: Any) -> list[object]:  # noqa: ANN401 - of any mechanism
        """What is published of this: the model of all records and, if there are windows, of some of them."""
        parts = [measured, *(measured.after(measured.t * i // 3) for i in (1, 2) if self.kind.windows)]
        fit = protocol.model(self.mechanism).fit
        return [(one.start, said(fit(one, self.schema, SEED).state())) for one in parts]

    def encoded(self, mechanism: Mechanism, size: int, seed: int) -> Batch:
        return Batch(mechanism.encode(self.schema.encode(self.batch(size, seed))))


def same(one: Release, other: Release) -> bool:
    """Whether two releases are alike in all that they say. What kind of table came in last is not compared."""
    facts = [(release.facts, release.span, release.seed) for release in (one, other)]
    return facts[0] == facts[1] and said(one.model.state()) == said(other.model.state())


def said(state: State) -> list[tuple[str, bytes]]:
    header, arrays = state
    found = [(f"{name} {array.dtype} {array.shape}", array.tobytes()) for name, array in sorted(arrays.items())]
    return [(repr(header), b""), *found]


Check = Callable[[Subject], None]


def checks(mechanism: str, traits: Traits | None = None) -> Iterator[tuple[str, Callable[[], None]]]:
    """The names and functions of all checks that apply to a mechanism, for ``pytest.mark.parametrize``."""
    if traits is not None:
        TRAITS[mechanism] = traits
    subject, online = partial(Subject, mechanism), mechanism in protocol.online()
    for check in ALWAYS + ((check_null_records_are_private, check_people_are_private) if online else ()):
        yield check.__name__, partial(check, subject(SCHEMAS["square"]))
    for check in ONLINE if online else ():
        for name, schema in SCHEMAS.items():
            yield f"{check.__name__}, {name}", partial(check, subject(schema))
    if traits_of(mechanism).deltas:
        for check in (*ALWAYS, check_null_records_are_private, *ONLINE):
            yield f"{check.__name__}, delta", partial(_with_delta, check, subject(SCHEMAS["table"], DELTA))


def _with_delta(check: Check, subject: Subject) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeltaWarning)  # it is meant to be large
        check(subject)


def check_mechanism(mechanism: str, traits: Traits | None = None) -> None:
    """Run all checks; the first that fails raises `CheckFailed` or an `AuditAlarm`, which are assertion errors."""
    for _, check in checks(mechanism, traits):
        check()


def check_releases(subject: Subject) -> None:
    """Whole, in the schema, the same after save and load; under every schema, empty streams and single records."""
    for schema in SCHEMAS.values():
        for n in (0, 1, 2, 300):
            release = replace(subject, schema=schema).release_once(n)
            expect(release.t == n, f"a release of {n} records says {release.t}")
            check_release(release)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "release.hw"
                release.save(path)
                loaded = Release.load(path)
            expect(same(release, loaded), "a release that was loaded is another one")
            expect(np.array_equal(release.points(), loaded.points()), "a release that was loaded has other points")
            errors = [repr((one.expected_error(), one.error_bound)) for one in (release, loaded)]
            expect(errors[0] == errors[1], "a release that was loaded says something else of its error")


def check_release(release: Release) -> None:
    """Exactly as many records as arrived, all of them in the schema, the same every time."""
    first, last = release.span
    points = release.points()
    expect(points.shape == (last - first, release.schema.dimension), f"{points.shape} points for span {release.span}")
    expect(release.model.records == last - first, "the model is about another number of records")
    expect(((points >= 0) & (points <= 1)).all(), "a point lies outside the cube")
    expect(np.array_equal(points, release.points()), "points() gives other points when it is called again")
    if isinstance(release.schema, Schema):
        back = release.schema.encode(release.sample(kind="records"))  # every record fits the schema, or this refuses it
        expect(len(back) == last - first, "sample() gives another number of records")
    if last > first:
        expect(len(release.sample(7, kind="records")) == 7, "sample(7) gives another number of records")


def check_ledger_over_time(subject: Subject) -> None:
    for schema in SCHEMAS.values():
        for epsilon in (0.1, 1.0, 50.0):
            check_ledgers(subject.mechanism, schema, subject.budget(epsilon))


def check_every_draw_is_in_the_ledger(subject: Subject) -> None:
    for epsilon in (1.0, 8.0):
        with watching() as record:
            listed = _listed(subject, epsilon)
        drawn = {measurement.law for measurement in record}
        expect(drawn, "nothing was measured")
        if traits_of(subject.mechanism).divides:
            for law in drawn:
                scales = [spend.scale for spend in listed if type(spend.law) is type(law)]
                # Joint noise is listed as what one table would have, which costs as much.
                most = max((spend.cost for spend in listed if isinstance(spend.cost, Fraction)), default=0)
                enough = law.scale >= min(scales) if scales else law.epsilon(1) <= most
                expect(enough, f"less {law.name} noise is drawn than any ledger lists")
        else:
            others = sorted(map(str, drawn - {spend.law for spend in listed}))
            expect(not others, f"noise of the law {', '.join(others)} is in no ledger")


def _listed(subject: Subject, epsilon: float) -> set[Spend]:
    if not subject.online:
        return {*pmm_ledger(subject.release_once(300, epsilon).t, subject.schema.partition, epsilon)}
    mechanism, listed = subject.begin(Noise(seed=0), epsilon), set[Spend]()
    for size in [*[1] * 70, 500]:
        listed |= {*mechanism.ledger()}
        mechanism = mechanism.update(subject.encoded(mechanism, size, mechanism.t))
        mechanism.measured(0)
    return listed | {*mechanism.ledger()}


def check_exact_audit(subject: Subject) -> None:
    cases = [*worst_cases(subject.mechanism, 1, 8.0)[::2], *worst_cases(subject.mechanism, 2, 4.0)]
    if subject.online:
        cases += tables(subject.mechanism, 8.0)
    cases = [replace(case, files=number % 6 == 0) for number, case in enumerate(cases)]  # every published byte: slow
    for case, loss in zip(cases, _losses(with_delta(cases, subject.delta), outputs=2), strict=True):
        check_counting(case)
        expect(loss.reached == loss.bound or subject.delta, "the output that costs most is not found")


def check_null_records_are_private(subject: Subject) -> None:
    _losses(with_delta(bad_records(subject.mechanism, 8.0), subject.delta))


def check_people_are_private(subject: Subject) -> None:
    cases = people(subject.mechanism, EPSILON, noisy_counts=True)
    if traits_of(subject.mechanism).deltas:
        in_rho = with_delta(people(subject.mechanism, IN_RHO, noisy_counts=True)[:4:2])
        cases += in_rho
        cases += [replace(one, person=replace(one.person, per_bucket=1)) for one in in_rho if one.person]
    _losses(cases)


def _losses(cases: Sequence[Case], outputs: int = 1) -> list[Loss]:
    losses = [check_sensitivity(case, outputs=outputs) for case in cases]
    expect(any(loss.rho for loss in losses), "no replaced record moves anything that is measured: nothing is seen")
    return losses


def check_each_record_is_encoded_by_itself(subject: Subject) -> None:
    """What is kept of a record never depends on others; each of its integers is below its size."""
    mechanism, points = subject.begin(Noise(seed=SEED)), subject.schema.encode(subject.batch(150, 1))
    rows = mechanism.encode(points)
    expect(rows.ndim == 2 and rows.dtype.kind == "u", "encode() must give rows of unsigned integers")
    expect(rows.shape == (150, len(mechanism.sizes)), "a row has as many integers as there are sizes")
    expect((rows < np.array(mechanism.sizes, dtype=object)).all(), "encode() gives an integer beyond its size")
    each = np.concatenate([mechanism.encode(points[i : i + 1]) for i in range(len(points))])
    expect(np.array_equal(rows, each), "the rows of a batch are not those of its records, each encoded by itself")


class _Never:
    """A source of noise that nobody may draw from."""

    def __getattr__(self, name: str) -> object:
        raise CheckFailed("what was kept is measured again")


def check_what_is_measured_is_kept(subject: Subject) -> None:
    """An update leaves the mechanism before it as it was; what it measured is kept, says all, and is measured once."""
    mechanism, measured = subject.begin(Noise(seed=SEED)), protocol.measured(subject.mechanism)
    batches = [subject.encoded(mechanism, size, number) for number, size in enumerate((3, 1, 0, 64, 33, 300, 7, 120))]
    kept, wanted, states = dict[Span, Any](), list[list[object]](), list[State]()
    for batch in batches:
        before = [subject.seen(mechanism.measured(SEED)), said(mechanism.state()), {*mechanism.kept()}]
        after, again = mechanism.update(batch), mechanism.update(batch)
        found = [subject.seen(mechanism.measured(SEED)), said(mechanism.state()), {*mechanism.kept()}]
        expect(found == before, "update() changed the mechanism that it was asked of")
        wanted.append(subject.seen(after.measured(SEED)))
        expect(subject.seen(again.measured(SEED)) == wanted[-1], "the same update gives two different mechanisms")
        new = {span: one for span, one in after.kept().items() if span not in kept}
        packed = measured.unpack(*_through_a_file(measured.pack(new)), subject.schema) if new else {}
        for known, what in ((new, "kept"), (packed, "kept and packed")):
            told = measured.of({**kept, **known}, subject.schema, subject.budget(8.0), after.t)
            expect(subject.seen(told) == wanted[-1], f"a release from what was {what} is another one")
        kept, mechanism = {**kept, **packed}, after
        states.append(_through_a_file(mechanism.state()))
    silent, half = cast("Noise", _Never()), len(batches) // 2
    restored = subject.kind.restore(subject.schema, subject.budget(8.0), silent, states[half - 1])
    for one, first in ((subject.begin(silent), 0), (restored, half)):
        knowing = one.knowing(kept)
        for batch, seen in zip(batches[first:], wanted[first:], strict=True):
            knowing = knowing.update(batch)
            expect(
                subject.seen(knowing.measured(SEED)) == seen, "a mechanism that knows what was kept publishes another"
            )


def _through_a_file(state: protocol.State) -> protocol.State:
    return files.unpack(files.pack("check", *state), "check", "check")


def check_records_arrive_in_any_pieces(subject: Subject) -> None:
    """One by one, in pieces, or counted by other processes; asked, saved and loaded between them; some are bad."""
    for epsilon in (1.0, 30.0):
        start = subject.begin(Noise(seed=SEED), epsilon)
        rows = subject.encoded(start, 400, 1).rows
        rows[::17] = np.iinfo(rows.dtype).max
        whole = start.update(Batch(rows))
        expect(whole.t == len(rows), "a null record does not count in t")
        pieces = counted = start
        for end in (1, 2, 3, 5, 40, 41, 250, 250, 399, 400):
            pieces = pieces.update(Batch(rows[pieces.t : end]))
            pieces.measured(SEED)
            state = _through_a_file(pieces.state())
            pieces = subject.kind.restore(subject.schema, subject.budget(epsilon), Noise(seed=SEED), state)
            expect(said(_through_a_file(pieces.state())) == said(state), "what was restored has another state")
            if start.spans(0):
                counted = counted.update(_counted(start, rows[:end], counted.t, end if end % 2 else None))
        for found in (pieces, counted) if start.spans(0) else (pieces,):
            expect(found.t == whole.t, f"t is {found.t} after {whole.t} records")
            alike = subject.seen(found.measured(SEED)) == subject.seen(whole.measured(SEED))
            expect(alike, "records that arrive in pieces, or counted, give something else than at once")


def _counted(start: Mechanism, rows: Rows, t: int, until: int | None) -> Batch:
    """The records from ``t`` on as three processes count them, none of which knows the run or the others' records."""

    def bucket(number: int) -> Span:
        return fastest(start.spans(number), until)

    parts = [np.arange(t + worker, len(rows), 3) for worker in range(3)]
    return Batch.merge(count_by_bucket(rows[part], part, bucket, start.coarser, until) for part in parts)


ALWAYS: tuple[Check, ...] = (
    check_releases,
    check_ledger_over_time,
    check_every_draw_is_in_the_ledger,
    check_exact_audit,
)
"""Of every mechanism, once."""
ONLINE: tuple[Check, ...] = (
    check_each_record_is_encoded_by_itself,
    check_what_is_measured_is_kept,
    check_records_arrive_in_any_pieces,
)
"""Of a mechanism that takes records one after another, for each schema."""
