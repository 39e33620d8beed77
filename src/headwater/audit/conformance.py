"""Conformance checks: what every mechanism must pass, whoever wrote it.

They assume nothing of how a mechanism works: not cells, not trees, not how wide its rows are.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from headwater.audit.cases import SCHEMAS, SEED, Case, CheckFailed, expect, said, same
from headwater.audit.losses import check_counting, check_ledgers, check_sensitivity
from headwater.audit.suite import DELTA, bad_records, people, tables, with_delta, worst_cases
from headwater.audit.trace import watching
from headwater.audit.traits import TRAITS, Traits, traits_of
from headwater.public import files, protocol
from headwater.public.budget import DeltaWarning, Spend
from headwater.public.protocol import Kept, Measured, Rows, Span
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.secret.batch import Batch, count_by_bucket, fastest
from headwater.secret.mechanism import Mechanism
from headwater.secret.noise import Noise
from headwater.secret.pmm import ledger

Check = Callable[[Case], None]
BEYOND = 1 << 20  # more than any count here
EPSILON = 192.0  # of a person: so that buckets are short
IN_RHO = 4.0  # so that, with the δ of the suite, noise is Gaussian


def checks(mechanism: str, traits: Traits | None = None) -> Iterator[tuple[str, Callable[[], None]]]:
    """The names and functions of all checks that apply to a mechanism, for ``pytest.mark.parametrize``."""
    if traits is not None:
        TRAITS[mechanism] = traits
    case, online = partial(Case, mechanism), mechanism in protocol.online()
    for check in ALWAYS + ((check_people_are_private,) if online else ()):
        yield check.__name__, partial(check, case(SCHEMAS["square"]))
    if online:
        for check in ONLINE:
            for name, schema in SCHEMAS.items():
                yield f"{check.__name__}, {name}", partial(check, case(schema))
    if traits_of(mechanism).deltas:
        for check in ALWAYS + ONLINE:
            yield f"{check.__name__}, delta", partial(_with_delta, check, case(SCHEMAS["table"], DELTA))


def _with_delta(check: Check, case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeltaWarning)  # it is meant to be large
        check(case)


def check_mechanism(mechanism: str, traits: Traits | None = None) -> None:
    """Run all checks; the first that fails raises `CheckFailed` or an `AuditAlarm`, which are assertion errors.

    Parameters
    ----------
    mechanism
        The name under which it is registered (`headwater.public.protocol`).
    traits
        What the checks must know of it; of mechanisms of this package they know it.
    """
    for _, check in checks(mechanism, traits):
        check()


def check_releases(case: Case) -> None:
    """Whole, in the schema, the same after save and load; under every schema, empty streams and single records."""
    for schema in SCHEMAS.values():
        for n in (0, 1, 2, 300):
            release = replace(case, schema=schema).release_once(n)
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


def check_ledger_over_time(case: Case) -> None:
    """At all times to 2^40 the ledger adds up to at most ε, or ρ."""
    for schema in SCHEMAS.values():
        for epsilon in (0.1, 1.0, 50.0):
            check_ledgers(case.mechanism, schema, case.budget(epsilon))


def check_every_draw_is_in_the_ledger(case: Case) -> None:
    """All noise that is drawn has a law that the ledgers list."""
    for epsilon in (1.0, 8.0):
        with watching(lambda _: BEYOND) as record:
            listed = _listed(case, epsilon)
        drawn = {measurement.law for measurement in record}
        expect(drawn, "nothing was measured")
        if traits_of(case.mechanism).divides:
            for law in drawn:
                scales = [spend.scale for spend in listed if type(spend.law) is type(law)]
                # Joint noise is listed as what one table would have, which costs as much.
                most = max((spend.cost for spend in listed if isinstance(spend.cost, Fraction)), default=0)
                enough = law.scale >= min(scales) if scales else law.epsilon(1) <= most
                expect(enough, f"less {law.name} noise is drawn than any ledger lists")
        else:
            others = sorted(map(str, drawn - {spend.law for spend in listed}))
            expect(not others, f"noise of the law {', '.join(others)} is in no ledger")


def _listed(case: Case, epsilon: float) -> set[Spend]:
    """All that the ledgers list of a run, which is made to measure on the way."""
    if not case.online:
        return {*ledger(case.release_once(300, epsilon).t, case.schema.partition, epsilon)}
    mechanism, listed = _begin(case, Noise(seed=0), epsilon), set[Spend]()
    for size in [*[1] * 70, 500]:
        listed |= {*mechanism.ledger()}
        mechanism = mechanism.update(_batch(case, mechanism, size, mechanism.t))
        mechanism.measured(0)
    return listed | {*mechanism.ledger()}


def _begin(case: Case, noise: Noise, epsilon: float = 8.0) -> Mechanism:
    return case.kind(case.schema, case.budget(epsilon), noise)


def _batch(case: Case, mechanism: Mechanism, size: int, seed: int) -> Batch:
    return Batch(mechanism.encode(case.schema.encode(case.batch(size, seed))))


def check_exact_audit(case: Case) -> None:
    """Whatever is published, a replaced record costs at most ε; nothing else that is published differs."""
    experiments = [*worst_cases(case.mechanism, 1, 8.0)[::2], *worst_cases(case.mechanism, 2, 4.0)]
    if case.online:
        experiments += tables(case.mechanism, 8.0)
    costs = []
    for number, experiment in enumerate(with_delta(experiments, case.delta)):
        check_counting(experiment)
        files = replace(experiment, files=number % 6 == 0)  # every published byte: slow
        loss = check_sensitivity(files, outputs=2)
        expect(loss.reached == loss.bound or case.delta, "the output that costs most is not found")
        costs.append(loss.rho)
    expect(max(costs) > 0, "no replaced record moves anything that is measured: the audit sees nothing")


def check_null_records_are_private(case: Case) -> None:
    """A record that is replaced by a bad one, which is in no cell, costs at most ε."""
    if not case.online:
        return
    experiments = with_delta(bad_records(case.mechanism, 8.0), case.delta)
    costs = [check_sensitivity(experiment, outputs=1).rho for experiment in experiments]
    expect(max(costs) > 0, "a record that becomes a null record moves nothing: the audit sees nothing")


def check_people_are_private(case: Case) -> None:
    experiments = people(case.mechanism, EPSILON, noisy_counts=True)
    if traits_of(case.mechanism).deltas:
        in_rho = with_delta(people(case.mechanism, IN_RHO, noisy_counts=True)[:4:2])
        experiments += in_rho
        experiments += [replace(one, person=replace(one.person, per_bucket=1)) for one in in_rho if one.person]
    costs = [check_sensitivity(experiment, outputs=1).rho for experiment in experiments]
    expect(max(costs) > 0, "no replaced person moves anything that is measured: the audit sees nothing")


def check_each_record_is_encoded_by_itself(case: Case) -> None:
    """What is kept of a record never depends on others; each of its integers is below its size."""
    mechanism, points = _begin(case, Noise(seed=SEED)), case.schema.encode(case.batch(150, 1))
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


def check_what_is_measured_is_kept(case: Case) -> None:
    """An update leaves the mechanism before it as it was; what it measured is kept, says all, and is measured once."""
    mechanism = _begin(case, Noise(seed=SEED))
    batches = [_batch(case, mechanism, size, number) for number, size in enumerate((3, 1, 0, 64, 33, 300, 7, 120))]
    kept, wanted, half = dict[Span, Any](), list[list[object]](), mechanism.state()
    for number, batch in enumerate(batches):
        after, before = mechanism.update(batch), _seen(case, mechanism.measured(SEED))
        state, kept_before = said(mechanism.state()), mechanism.kept().keys()
        again = mechanism.update(batch)
        expect(_seen(case, mechanism.measured(SEED)) == before, "update() changed the mechanism that it was asked of")
        unchanged = said(mechanism.state()) == state and mechanism.kept().keys() == kept_before
        expect(unchanged, "update() changed the mechanism that it was asked of")
        wanted.append(_seen(case, after.measured(SEED)))
        expect(_seen(case, again.measured(SEED)) == wanted[-1], "the same update gives two different mechanisms")
        new = {span: one for span, one in after.kept().items() if span not in kept}
        for known, what in (({**kept, **new}, "kept"), ({**kept, **_unpacked(case, new)}, "kept and packed")):
            measured = protocol.measured(case.mechanism).of(known, case.schema, case.budget(8.0), after.t)
            expect(_seen(case, measured) == wanted[-1], f"a release from what was {what} is another one")
        kept |= _unpacked(case, new)
        mechanism = after
        if number == len(batches) // 2:
            half = mechanism.state()
    silent = cast("Noise", _Never())
    _replay(case, _begin(case, silent).knowing(kept), batches, wanted)
    restored = case.kind.restore(case.schema, case.budget(8.0), silent, _through_a_file(half)).knowing(kept)
    _replay(case, restored, batches[len(batches) // 2 + 1 :], wanted[len(batches) // 2 + 1 :])


def _replay(case: Case, mechanism: Mechanism, batches: Sequence[Batch], wanted: Sequence[list[object]]) -> None:
    for batch, seen in zip(batches, wanted, strict=True):
        mechanism = mechanism.update(batch)
        expect(_seen(case, mechanism.measured(SEED)) == seen, "a mechanism that knows what was kept publishes another")


def _unpacked(case: Case, kept: Kept) -> Kept:
    """What was kept, written to a file and read again."""
    kind = protocol.measured(case.mechanism)
    return kind.unpack(*_through_a_file(kind.pack(kept)), case.schema) if kept else {}


def _through_a_file(state: protocol.State) -> protocol.State:
    return files.unpack(files.pack("check", *state), "check", "check")


def _seen(case: Case, measured: Measured) -> list[object]:
    """What is published of this: the model of all records and, if there are windows, of some of them."""
    whole, model = cast("Any", measured), protocol.model(case.mechanism)
    parts = [whole, *(whole.after(whole.t * i // 3) for i in (1, 2) if case.kind.windows)]
    return [(one.start, said(model.fit(one, case.schema, SEED).state())) for one in parts]


def check_records_arrive_in_any_pieces(case: Case) -> None:
    """One by one, in pieces, or counted by other processes; asked, saved and loaded between them; some are bad."""
    for epsilon in (1.0, 30.0):
        start = _begin(case, Noise(seed=SEED), epsilon)
        rows = _batch(case, start, 400, 1).rows
        rows[::17] = np.iinfo(rows.dtype).max
        whole = start.update(Batch(rows))
        expect(whole.t == len(rows), "a null record does not count in t")
        pieces = counted = start
        for end in (1, 2, 3, 5, 40, 41, 250, 250, 399, 400):
            pieces = pieces.update(Batch(rows[pieces.t : end]))
            pieces.measured(SEED)
            state = _through_a_file(pieces.state())
            pieces = case.kind.restore(case.schema, case.budget(epsilon), Noise(seed=SEED), state)
            expect(
                said(_through_a_file(pieces.state())) == said(state), "a mechanism that was restored has another state"
            )
            if start.spans(0):
                counted = counted.update(_counted(start, rows[:end], counted.t, end if end % 2 else None))
        for found in (pieces, counted) if start.spans(0) else (pieces,):
            expect(found.t == whole.t, f"t is {found.t} after {whole.t} records")
            alike = _seen(case, found.measured(SEED)) == _seen(case, whole.measured(SEED))
            expect(alike, "records that arrive in pieces, or counted, give something else than at once")


def _counted(start: Mechanism, rows: Rows, t: int, until: int | None) -> Batch:
    """The records from ``t`` on as three processes count them, none of which knows the run or the others' records."""
    parts = [np.arange(t + worker, len(rows), 3) for worker in range(3)]
    bucket = partial(_bucket, start, until)
    return Batch.merge(count_by_bucket(rows[part], part, bucket, start.coarser, until) for part in parts)


def _bucket(start: Mechanism, until: int | None, number: int) -> Span:
    return fastest(start.spans(number), until)


ALWAYS: tuple[Check, ...] = (
    check_releases,
    check_ledger_over_time,
    check_every_draw_is_in_the_ledger,
    check_exact_audit,
    check_null_records_are_private,
)
"""Of every mechanism, once."""
ONLINE: tuple[Check, ...] = (
    check_each_record_is_encoded_by_itself,
    check_what_is_measured_is_kept,
    check_records_arrive_in_any_pieces,
)
"""Of a mechanism that takes records one after another, for each schema."""
