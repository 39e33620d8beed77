"""Checks of what a mechanism publishes, whether it takes records one after another or all at once."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from headwater.audit import check_ledger
from headwater.audit.trace import watching
from headwater.checks.behaviour import check_release
from headwater.checks.cases import SCHEMAS, Case, expect, same
from headwater.evaluate.report import write_report
from headwater.public.budget import Spend
from headwater.public.folder import publish
from headwater.public.release import Release
from headwater.secret.noise import Noise

BEYOND = 1 << 20  # more than any count here


def check_releases(case: Case) -> None:
    """Whole, in the schema, the same after save and load; under every schema, empty streams and single records."""
    for schema in SCHEMAS.values():
        of_schema = replace(case, schema=schema)
        for n in (0, 1, 2, 300):
            release = of_schema.release_once(n)
            expect(release.t == n, f"a release of {n} records says {release.t}")
            check_release(release)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "release.hw"
                release.save(path)
                loaded = Release.load(path)
            expect(same(release, loaded), "a release that was loaded is another one")
            expect(np.array_equal(release.points(), loaded.points()), "a release that was loaded has other points")
            expect(_errors(release) == _errors(loaded), "a release that was loaded says something else of its error")


def _errors(release: Release) -> str:
    return repr((release.expected_error(), release.error_bound))


def check_report(case: Case) -> None:
    """A release is published with its card, and the report reads it."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        publish(replace(case, schema=SCHEMAS["table"]).release_once(300), out, format="csv")
        page = write_report(out, Path(folder) / "report.html").read_text()
    expect(case.mechanism in page, "the report does not say which mechanism it was")


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


CHECKS = (check_releases, check_report, check_ledger_over_time, check_every_draw_is_in_the_ledger)
