"""Conformance checks: what every mechanism must pass, whoever wrote it.

They assume nothing of how a mechanism works: not cells, not trees, not how wide its rows are.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from headwater.audit import behaviour, disturbed
from headwater.audit.cases import SCHEMAS, Case, expect, same
from headwater.audit.losses import check_counting, check_ledger, check_sensitivity
from headwater.audit.suite import DELTA, people, tables, with_delta, worst_cases
from headwater.audit.trace import watching
from headwater.public.budget import DeltaWarning, Spend
from headwater.public.cube import UnitCube
from headwater.public.errors import TableError
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.public.tally import BadRow, EncodedBatch
from headwater.secret.mechanism import mechanism_class
from headwater.secret.noise import Noise

Check = Callable[[Case], None]
BEYOND = 1 << 20  # more than any count here
EPSILON = 192.0  # of a person: so that buckets are short
IN_RHO = 4.0  # so that, with the δ of the suite, noise is Gaussian


def checks(mechanism: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """The names and functions of all checks that apply to a mechanism, for ``pytest.mark.parametrize``.

    Parameters
    ----------
    mechanism
        The name under which it is registered (`headwater.public.protocol`).
    """
    kind, case = mechanism_class(mechanism), partial(Case, mechanism)
    for check in ALWAYS + (ONCE if kind.online else ()):
        yield check.__name__, partial(check, case(SCHEMAS["square"]))
    if kind.online:
        for check in ONLINE:
            for name, schema in SCHEMAS.items():
                yield f"{check.__name__}, {name}", partial(check, case(schema))
    if kind.deltas:
        for check in ALWAYS + (ONLINE if kind.online else ()):
            yield f"{check.__name__}, delta", partial(_with_delta, check, case(SCHEMAS["table"], DELTA))


def _with_delta(check: Check, case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeltaWarning)  # it is meant to be large
        check(case)


def check_mechanism(mechanism: str) -> None:
    """Run all checks; the first that fails raises `CheckFailed` or an `AuditAlarm`, which are assertion errors.

    Parameters
    ----------
    mechanism
        The name under which it is registered (`headwater.public.protocol`).
    """
    for _, check in checks(mechanism):
        check()


def check_releases(case: Case) -> None:
    """Whole, in the schema, the same after save and load; under every schema, empty streams and single records."""
    for schema in SCHEMAS.values():
        for n in (0, 1, 2, 300):
            release = replace(case, schema=schema).release_once(n)
            expect(release.t == n, f"a release of {n} records says {release.t}")
            behaviour.check_release(release)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "release.hw"
                release.save(path)
                loaded = Release.load(path)
            expect(same(release, loaded), "a release that was loaded is another one")
            expect(np.array_equal(release.points(), loaded.points()), "a release that was loaded has other points")
            errors = [repr((one.expected_error(), one.error_bound)) for one in (release, loaded)]
            expect(errors[0] == errors[1], "a release that was loaded says something else of its error")


def check_ledger_over_time(case: Case) -> None:
    """At all times to 2^40 the ledger adds up to at most ε, or ρ, and the guarantee is the one that was asked for."""
    for schema in SCHEMAS.values():
        for epsilon in (0.1, 1.0, 50.0):
            budget = case.budget(epsilon)
            mechanism = case.kind(schema, budget, Noise(seed=0))  # nothing is measured with it
            for t in [0, *(1 << q for q in range(0, 41, 4))]:
                ledger = mechanism.ledger(t)
                check_ledger(ledger, budget)
                expect(ledger.guarantee(budget) == budget.guarantee, "the ledger promises something else")


def check_every_draw_is_in_the_ledger(case: Case) -> None:
    """All noise that is drawn has a law that the ledgers list.

    A mechanism that divides what is listed among tables (``divides = True``) draws more noise than that, never less.
    What all of it adds up to is for its own tests and for the exact audit.
    """
    for epsilon in (1.0, 8.0):
        with watching(lambda _: BEYOND) as record:
            mechanism = case.kind(case.schema, case.budget(epsilon), Noise(seed=0))
            listed = set[Spend]()
            for size in [*[1] * 70, 500] if case.kind.online else [300]:
                rows = mechanism.encode(case.schema.encode(case.batch(size, mechanism.t)))
                listed |= {*mechanism.ledger()}
                mechanism.update(rows)
                mechanism.measured(0, 0)
                listed |= {*mechanism.ledger()}
        drawn = {measurement.law for measurement in record}
        expect(drawn, "nothing was measured")
        if getattr(case.kind, "divides", False):
            for law in drawn:
                scales = [spend.scale for spend in listed if type(spend.law) is type(law)]
                # Joint noise is listed as what one table would have, which costs as much.
                most = max((spend.cost for spend in listed if isinstance(spend.cost, Fraction)), default=0)
                enough = law.scale >= min(scales) if scales else law.epsilon(1) <= most
                expect(enough, f"less {law.name} noise is drawn than any ledger lists")
        else:
            others = sorted(map(str, drawn - {spend.law for spend in listed}))
            expect(not others, f"noise of the law {', '.join(others)} is in no ledger")


def check_exact_audit(case: Case) -> None:
    """Whatever is published, a replaced record costs at most ε; nothing else that is published differs."""
    experiments = [*worst_cases(case.mechanism, 1, 8.0)[::2], *worst_cases(case.mechanism, 2, 4.0)]
    if case.kind.online:
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
    if not case.kind.online:
        return
    costs = []
    experiments = [*worst_cases(case.mechanism, 1, 8.0)[::2], *tables(case.mechanism, 8.0)]
    for experiment in with_delta(experiments, case.delta):
        with _null_at(experiment.schema.encode(experiment.batch((experiment.pair.places[1],)))):
            costs.append(check_sensitivity(experiment, outputs=1).rho)
    expect(max(costs) > 0, "a record that becomes a null record moves nothing: the audit sees nothing")


@contextmanager
def _null_at(point: NDArray[np.float64]) -> Iterator[None]:
    """Records at one point of the cube are bad ones."""
    with ExitStack() as stack:
        for kind in (UnitCube, Schema):
            usual = kind.encode_batch

            def bad_there(self: Any, table: object, usual: Any = usual, **options: str) -> EncodedBatch:  # noqa: ANN401
                found: EncodedBatch = usual(self, table, **options)
                rows = np.flatnonzero((found.points == point).all(axis=1)).tolist()
                return replace(found, bad=tuple(BadRow(row, TableError("bad", "none")) for row in rows))

            stack.enter_context(patch.object(kind, "encode_batch", bad_there))
        yield


def check_people_are_private(case: Case) -> None:
    """All records of one person, in one bucket or several, as many as count or more, cost at most ε together.

    Under a δ they cost no more than ρ allows, also with a cap for buckets.
    """
    experiments = people(case.mechanism, EPSILON, noisy_counts=True)
    if case.kind.deltas:
        in_rho = with_delta(people(case.mechanism, IN_RHO, noisy_counts=True)[:4:2])
        experiments += in_rho
        experiments += [replace(one, person=replace(one.person, per_bucket=1)) for one in in_rho if one.person]
    costs = [check_sensitivity(experiment, outputs=1).rho for experiment in experiments]
    expect(max(costs) > 0, "no replaced person moves anything that is measured: the audit sees nothing")


ALWAYS: tuple[Check, ...] = (
    check_releases,
    check_ledger_over_time,
    check_every_draw_is_in_the_ledger,
    check_exact_audit,
    check_null_records_are_private,
)
"""Of every mechanism, once."""
ONLINE: tuple[Check, ...] = (
    behaviour.check_a_batch_is_its_records,
    behaviour.check_null_records_count_in_t_only,
    behaviour.check_any_sequence_of_calls,
)
"""Of a mechanism that takes records one after another, for each schema."""
ONCE: tuple[Check, ...] = (
    disturbed.check_threads,
    disturbed.check_an_interrupted_update_is_all_or_nothing,
    disturbed.check_a_killed_run_goes_on,
    check_people_are_private,
)
"""Of such a mechanism, for one schema: they are slow, and a schema makes no difference."""
