"""The whole audit: exact losses, ledgers and pairs of files, then sampled runs of the worst cases; and its report."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial

from headwater import __version__
from headwater.audit.cases import Case, to_sample, to_trace, traits_of
from headwater.audit.exact import check_counting, check_ledgers, check_sensitivity
from headwater.audit.files import check_files, file_pairs
from headwater.audit.sampled import ALPHA, LEAST, Finding, sample
from headwater.audit.view import AuditAlarm
from headwater.markdown import table
from headwater.public import protocol
from headwater.public.budget import Budget
from headwater.public.cube import unit_cube


@dataclass(frozen=True)
class AuditReport:
    version: str
    findings: tuple[Finding, ...]

    @property
    def alarms(self) -> list[str]:
        return [one.name for one in self.findings if one.alarm]

    @property
    def passed(self) -> bool:
        return not self.alarms

    def to_json(self) -> str:
        findings = [asdict(one) | {"alarm": one.alarm} for one in self.findings]
        found = {"headwater": self.version, "passed": self.passed, "confidence": 1 - ALPHA, "note": self._note()}
        return json.dumps(found | {"findings": findings}, indent=2, ensure_ascii=False)

    def _note(self) -> str:
        m = sum(one.runs > 0 for one in self.findings)
        return (
            f"Without runs: the loss, computed exactly. Each lower bound from runs holds with {1 - ALPHA:.1%}, for its "
            f"case alone. A claim is refuted only by a bound at {1 - ALPHA / max(m, 1):.4%} ({m} cases): the whole "
            f"audit accuses a sound mechanism with a probability of at most {ALPHA:.2%}."
        )

    def __str__(self) -> str:
        rows = [[f.name, *_found(f), f"{f.runs:,}" if f.runs else "", f.how] for f in self.findings]
        last = f"passed: no claim is refuted by {len(rows)} cases and checks"
        last = last if self.passed else "ALARM: " + "; ".join(self.alarms)
        head = ["case", "claimed ε, δ", "at least", "", "runs a stream", "how"]
        return "\n\n".join([table(head, rows).rstrip(), self._note(), last])


def _found(found: Finding) -> tuple[str, str, str]:
    claimed, lower = f"{found.claimed:g}", "—" if found.lower is None else f"{found.lower:.3f}"
    if found.delta and found.runs:
        claimed, lower = f"{claimed}, {found.delta:g}", f"{lower}, {found.delta_lower:.3f}"
    return claimed, lower, "ALARM" if found.alarm else "ok"


def run_audit(runs: int = 600, *, only: str | None = None, seed: int | None = None, show: bool = False) -> AuditReport:
    """Try to refute every claim by so many runs on each stream of a pair; 0 for exact losses only."""
    if runs and runs < LEAST:
        raise ValueError(f"runs must be 0 or at least {LEAST}: half of them choose an event, the others count it")
    checks = [check for check in _exact() if only is None or only in check[0]]
    cases = [case for case in to_sample() if runs and (only is None or only in case.name)]
    checks += [(case.name, partial(sample, case, runs, seed, among=len(cases))) for case in cases]
    if not checks:
        raise ValueError(f"nothing is called {only!r}; without only= everything is audited")
    findings = []
    for number, (name, find) in enumerate(checks, 1):
        if show:
            print(f"{number}/{len(checks)} {name}", file=sys.stderr)
        findings.append(find())
    return AuditReport(__version__, tuple(findings))


Check = tuple[str, Callable[[], Finding]]


def _exact() -> Iterator[Check]:
    how = "when releases come, their sizes, the exit code: all the same"
    for pair in file_pairs():
        name = f"files: {pair.name} ({pair.file})"
        yield name, partial(_computed, name, 0.0, how, partial(check_files, pair))
    how = "the largest of the outputs tried; nothing else published differs"
    for case in to_trace():
        yield case.name, partial(_computed, case.name, case.epsilon, how, partial(_loss, case))
    for dimension, epsilon in [(1, 0.1), (1, 1.0), (2, 1.0), (2, 50.0), (5, 2.0), (16, 1.0)]:
        for mechanism in protocol.names():
            for delta in (0.0, 1e-9) if traits_of(mechanism).deltas else (0.0,):
                budget = Budget(epsilon, delta)
                name = f"{mechanism}, ledger, d = {dimension}, {budget}"
                compute = partial(check_ledgers, mechanism, unit_cube(dimension), budget)
                yield name, partial(_computed, name, epsilon, "the largest total, to 2^40 records", compute)


def _computed(name: str, claimed: float, how: str, compute: Callable[[], object]) -> Finding:
    try:
        loss = float(compute())  # type: ignore[arg-type]
    except AuditAlarm as alarm:
        return Finding(name, claimed, None, None, str(alarm))
    return Finding(name, claimed, loss, loss, how)


def _loss(case: Case) -> float:
    if case.person is None:
        check_counting(case)
    check_sensitivity(replace(case, files=True), outputs=1)  # every byte that could be published
    return float(check_sensitivity(case, outputs=2).cost(case.claim))
