"""Runs whose unit is a person: exact losses of streams that differ in one person, and faults that must be seen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from headwater import state as synthesizer_state
from headwater.audit import AuditAlarm, check_sensitivity
from headwater.audit.suite import DELTA, people, with_delta
from headwater.checks.cases import Case, CheckFailed, expect
from headwater.public.numeric import Number
from headwater.public.person import Person
from headwater.public.protocol import with_null_records
from headwater.public.schema import Schema
from headwater.secret import people as module
from headwater.secret.people import NOBODY, Groups, Hashes, People, hash_each
from headwater.synthesizer import Synthesizer

EPSILON = 192.0  # so that buckets are short
IN_RHO = 4.0  # so that, with the δ of the suite, noise is Gaussian
SCHEMA = Schema(x=Number(0, 1), y=Number(0, 1))


def check_people_are_private(case: Case) -> None:
    """All records of one person, in one bucket or several, as many as count or more, cost at most ε together."""
    if case.kind.online:
        costs = [
            check_sensitivity(experiment, outputs=1).rho
            for experiment in people(case.mechanism, EPSILON, noisy_counts=True)
        ]
        expect(max(costs) > 0, "no replaced person moves anything that is measured: the audit sees nothing")


def check_people_faults(case: Case) -> None:
    """The audit raises the alarm when caps count too late, forget, collide, or shift the records of others."""
    if not case.kind.online:
        return
    experiments = [*people(case.mechanism, EPSILON, noisy_counts=True)][::-1]
    # Where counts are compared with thresholds the trace sees a part of the loss only: what shifts, and no sums.
    for fault in (shifting,) if case.kind.thresholds else FAULTS:
        with fault():
            if not any(map(_alarms, experiments)):
                raise CheckFailed(f"the audit does not notice a planted fault: {fault.__name__}")


def check_people_with_delta(case: Case) -> None:
    """Under a δ they cost no more than ρ allows, also with a cap for buckets; without its cap the alarm is raised."""
    if not case.kind.deltas:
        return
    every = with_delta([*people(case.mechanism, IN_RHO, noisy_counts=True)][:4:2], DELTA)
    capped = [replace(one, person=replace(one.person, per_bucket=1)) for one in every if one.person is not None]
    for experiment in every + capped:
        check_sensitivity(experiment, outputs=1)
    with uncapped_buckets():
        expect(_alarms(capped[0]), "the audit does not notice that buckets have no cap")


def _alarms(experiment: Any) -> bool:  # noqa: ANN401 - an Experiment
    try:
        check_sensitivity(experiment, outputs=1)
    except AuditAlarm:
        return True
    return False


def check_a_cap_of_one(case: Case) -> None:
    """If nobody has two records, a cap of one gives what records give; batches of people are their records."""
    if not case.kind.online:
        return
    points = np.random.default_rng(1).random((300, 2))
    table: dict[str, Any] = {"x": points[:, 0], "y": points[:, 1]}
    plain = Synthesizer(SCHEMA, epsilon=EPSILON, mechanism=case.mechanism, seed=1)
    plain.update(table)
    whole, single = (
        Synthesizer(SCHEMA, epsilon=EPSILON, mechanism=case.mechanism, person=Person("who", records=1), seed=1)
        for _ in range(2)
    )
    whole.update({**table, "who": np.arange(300)})
    for i in range(300):
        single.update({"x": [points[i, 0]], "y": [points[i, 1]], "who": [i]})
        if i % 100 == 50:
            single = Synthesizer.from_bytes(single.to_bytes())
    points_of = [synth.release().points().tobytes() for synth in (plain, whole, single)]
    expect(points_of[0] == points_of[1], "with a cap of one, people with one record give something else")
    expect(points_of[1] == points_of[2], "records of people one by one give something else than a batch")
    whole.update({**table, "who": np.arange(300)})
    expect((whole.t, whole.capped) == (600, 300), "second records count, or do not count in t")


# ---- faults


def _with_earlier(change: Callable[[NDArray[Any]], NDArray[Any]]) -> AbstractContextManager[object]:
    """How many records of a person came before each one of a batch is something else."""
    of = Groups.of

    def wrong(hashes: Hashes) -> Groups:
        found = of(hashes)
        return replace(found, earlier=change(found.earlier))

    return patch.object(Groups, "of", staticmethod(wrong))


def one_more() -> AbstractContextManager[object]:
    """The cap is compared with a count that lacks the record before: one more counts."""
    return _with_earlier(lambda earlier: np.maximum(earlier - 1, 0))


def counted_after() -> AbstractContextManager[object]:
    """Caps are brought up to date after a batch: all records of a person in it count, or none."""
    return _with_earlier(np.zeros_like)


def colliding() -> AbstractContextManager[object]:
    """People whose names are as long as each other have one hash."""

    def weak(values: Any, key: bytes) -> tuple[Hashes, dict[int, Any]]:  # noqa: ANN401 - `Values`
        hashes, wrong = hash_each(values, key)
        names = values.data if values.codes is None else [values.data[code] for code in values.codes]
        lengths = np.array([len(str(name)) for name in names], dtype=np.uint64)
        named = ~(hashes == NOBODY).all(axis=1)
        hashes[named] = lengths[named, None]
        return hashes, wrong

    return patch.object(module, "hash_each", weak)


def forgetting() -> AbstractContextManager[object]:
    """A run that goes on from a state has forgotten who had records."""
    restore = People.restore

    def forgetful(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> People:
        found = restore(header, arrays)
        return replace(found, caps=found.caps.emptied())

    return patch.object(People, "restore", staticmethod(forgetful))


def shifting() -> AbstractContextManager[object]:
    """Records beyond the cap are left out, so that all later ones move up."""
    real = with_null_records

    def dropped(rows: NDArray[Any], beyond: NDArray[np.bool_] | None) -> NDArray[Any]:
        return real(rows, beyond) if beyond is None else real(rows, beyond)[~beyond]

    return patch.object(synthesizer_state, "with_null_records", dropped)


def uncapped_buckets() -> AbstractContextManager[object]:
    """Noise is made for a cap in buckets, and nobody counts there."""
    after = People.after

    def careless(self: People, *batch: Any) -> tuple[NDArray[np.bool_], People]:  # noqa: ANN401 - handed on
        counted, people = after(replace(self, in_bucket=None), *batch)
        return counted, replace(people, in_bucket=self.in_bucket)

    return patch.object(People, "after", careless)


FAULTS: tuple[Callable[[], Any], ...] = (one_more, counted_after, colliding, forgetting, shifting)
CHECKS = (check_people_are_private, check_people_faults, check_people_with_delta, check_a_cap_of_one)
