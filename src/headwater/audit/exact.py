"""The judge that needs no luck: the ledger adds up, and a neighbour moves what is measured by no more than is paid for.

Formal guarantees
-----------------
If a mechanism publishes a function of sums "true count + fresh integer noise", then a pair of streams costs at most the
sum, over all draws, of what the law of the draw says of how far its true count moves between the streams: in ε, or with
Gaussian noise in ρ. Joint noise is one draw, and moves by the norm of what its counts move. `loss_between` measures
that sum on the real code, with the outputs of both streams made equal, and refuses to give one if a draw serves two
counts, if the draws themselves differ, or if anything published still differs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from headwater.audit.cases import Case, Pair, Record, traits_of
from headwater.audit.trace import BEYOND, Address, Law, Measurement, watching
from headwater.audit.view import AuditAlarm, View
from headwater.public.budget import Budget, Guarantee, Ledger, OverdrawnError
from headwater.public.laws import Cost, DiscreteGaussian, rho_for
from headwater.public.protocol import AnySchema
from headwater.secret.mechanism import mechanism_class
from headwater.secret.noise import Noise, norm
from headwater.secret.pmm import ledger as pmm_ledger

Laws = dict[Address, tuple[Law, tuple[tuple[Address, ...], tuple[int, ...]] | None]]
"""Of every count, its law, and of joint noise all that share the draw."""
_PASSES = 30  # at most, until nothing turns any more


@dataclass(frozen=True)
class Loss:
    """What one pair costs with one set of outputs, exactly."""

    bound: Cost = Fraction(0)  # the log of how much likelier any output is on one stream; perhaps infinite
    rho: Fraction = Fraction(0)
    reached: Fraction = Fraction(0)  # the log ratio of the output that was tried
    pure: Fraction = Fraction(0)  # the ε of the draws whose law has one
    gaussian: Fraction = Fraction(0)  # the ρ of all others

    def cost(self, claim: Guarantee) -> Fraction:
        costs = [self.bound]
        if claim.delta:
            epsilon, rho = Fraction(claim.epsilon), rho_for(claim.epsilon, claim.delta)
            costs.append(epsilon * self.rho / rho)
            if self.gaussian <= rho:
                part = Fraction(math.sqrt(self.gaussian / rho))
                while part**2 < self.gaussian / rho:
                    part = Fraction(math.nextafter(float(part), math.inf))
                costs.append(self.pure + epsilon * part)
        return Fraction(min(costs))


def loss_between(case: Case, seed: int = 0) -> Loss:
    """The loss of a pair when both publish the same numbers: random ones, then those where the streams differ most."""
    chosen: dict[Address, int] = {}
    far = 4 * len(case.pair.one) + 8
    # Thresholds are set out of reach: what happens when one is crossed is for the tests of the counters.
    options = [BEYOND, BEYOND + 1] if traits_of(case.mechanism).thresholds else [-far, 0, 1, 2, far]

    def choose(address: Address) -> int:
        if address not in chosen:
            chosen[address] = random.Random(f"{seed} {address}").choice(options)  # noqa: S311
        return chosen[address]

    def run(*, publish: bool) -> tuple[list[View], dict[Address, tuple[int, int]], list[Measurement]]:
        views, records = [], []
        for side in (0, 1):
            with watching(choose) as record:
                views.append(case.view(side, seed, publish=publish))
            records.append(record)
        return views, *_moved(*records)

    for _ in range(_PASSES):
        _, moved, draws = run(publish=False)
        turned = {a: true + far if shift > 0 else true - far for a, (shift, true) in moved.items() if shift}
        for one in draws:  # joint noise costs most if it is 0 on the first stream
            if one.sizes and any(moved[address][0] for address in one.addresses):
                turned |= {address: moved[address][1] for address in one.addresses}
        if all(chosen[address] == value for address, value in turned.items()):
            break
        chosen |= turned
    views, moved, draws = run(publish=True)  # all that is published, with every draw that it takes
    different = sorted(name for name in views[0] | views[1] if repr(views[0].get(name)) != repr(views[1].get(name)))
    if different:
        raise AuditAlarm(
            f"{case.name}: both streams were made to measure the same numbers, and still {different[0]!r} "
            f"differs ({len(different)} in all): something is published that noise did not protect"
        )
    return _added(draws, moved, chosen)


def _added(draws: Sequence[Measurement], moved: dict[Address, tuple[int, int]], chosen: dict[Address, int]) -> Loss:
    bound: Cost = Fraction(0)
    rho = pure = gaussian = reached = Fraction(0)
    for draw in draws:
        shifts = [moved[address][0] for address in draw.addresses]
        noise = [chosen[address] - moved[address][1] for address in draw.addresses]
        cost = sum(map(draw.law.epsilon, _lengths(draw, shifts)))
        in_rho = sum(map(draw.law.rho, _lengths(draw, shifts)), Fraction(0))
        bound, rho = bound + cost, rho + in_rho
        if draw.law.epsilon(1) < math.inf:
            pure += Fraction(cost)
        else:
            gaussian += in_rho
        other = [z + shift for z, shift in zip(noise, shifts, strict=True)]
        reached += sum(map(partial(_log_ratio, draw.law), _lengths(draw, noise), _lengths(draw, other)), Fraction(0))
    return Loss(bound, rho, abs(reached), pure, gaussian)


def _lengths(draw: Measurement, numbers: Sequence[int]) -> list[int]:
    """What the law is about: each count by itself, or the norm of all that share joint noise."""
    if not draw.sizes:
        return [abs(number) for number in numbers]
    ends = accumulate(draw.sizes)
    return [norm([numbers[end - size : end] for size, end in zip(draw.sizes, ends, strict=True)])]


def _log_ratio(law: Law, one: int, other: int) -> Fraction:
    if isinstance(law, DiscreteGaussian):
        return (other**2 - one**2) / (2 * Fraction(law.scale) ** 2)
    return (other - one) / Fraction(law.scale)


def _moved(
    one: Sequence[Measurement], other: Sequence[Measurement]
) -> tuple[dict[Address, tuple[int, int]], list[Measurement]]:
    """For every count, how much more it is on the first stream, and what it is there; and all different draws."""
    laws: Laws = {}
    counts = [check_draws(record, laws) for record in (one, other)]
    if counts[0].keys() != counts[1].keys():
        raise AuditAlarm("on a neighbouring stream other counts are measured: what to measure depends on raw data")
    draws, seen = list[Measurement](), set[Address]()
    for measured in one:
        new = [i for i, address in enumerate(measured.addresses) if address not in seen]
        if new:
            addresses = tuple(measured.addresses[i] for i in new)
            draws.append(replace(measured, addresses=addresses, true=measured.true[new]))
        seen |= set(measured.addresses)
    return {a: (counts[0][a] - counts[1][a], counts[0][a]) for a in counts[0]}, draws


def check_draws(record: Sequence[Measurement], laws: Laws | None = None) -> dict[Address, int]:
    """Alarm unless every draw serves one count under one law, joint noise always the same tables. Gives the counts."""
    known, laws = dict[Address, int](), {} if laws is None else laws
    for measured in record:
        law = measured.law, (measured.addresses, measured.sizes) if measured.sizes else None
        for address, true in zip(measured.addresses, measured.true.tolist(), strict=True):
            if known.setdefault(address, true) != true:
                raise AuditAlarm("one draw of noise protects two different counts: their difference is bare")
            if laws.setdefault(address, law) != law:
                raise AuditAlarm("one address is drawn with two scales or laws: what is published depends on raw data")
    return known


def check_sensitivity(case: Case, *, outputs: int = 8) -> Loss:
    """Alarm unless a pair costs at most what is claimed. Gives the largest loss of the outputs that were tried."""
    claim = case.claim
    worst = max((loss_between(case, seed) for seed in range(outputs)), key=lambda loss: loss.cost(claim))
    if worst.cost(claim) > Fraction(claim.epsilon):
        if not claim.delta:
            raise AuditAlarm(f"{case.name}: costs {float(worst.bound):.6g}, more than ε = {claim.epsilon:g}")
        allowed = float(rho_for(claim.epsilon, claim.delta))
        raise AuditAlarm(f"{case.name}: costs ρ = {float(worst.rho):.6g}, more than {allowed:.6g}: {claim.loss}")
    return worst


def check_counting(case: Case) -> None:
    """Alarm unless a record counts once on both streams, and on a face as it does the smallest step inside."""
    inside, totals = replace(case, pair=_off_the_faces(case.pair)), []
    for side in (0, 1):
        here, beside = _true_counts(case, side), _true_counts(inside, side)
        if here != beside:
            raise AuditAlarm(f"{case.name}: a record on a face is counted in no cell, or in another one")
        totals.append([sum(counts) for counts in here])
    if traits_of(case.mechanism).partitions and totals[0] != totals[1]:
        raise AuditAlarm(f"{case.name}: a record was counted in no cell, or in several")


def _true_counts(case: Case, side: int) -> list[list[int]]:
    with watching() as record:
        case.view(side, 0, publish=False)
    return [measurement.true.tolist() for measurement in record]


def _off_the_faces(pair: Pair) -> Pair:
    def moved(value: Any) -> Any:  # noqa: ANN401 - numbers move, words stay
        return float(np.clip(value, math.nextafter(0, 1), math.nextafter(1, 0))) if type(value) is float else value

    def inside(record: Record) -> Record:
        if isinstance(record, dict):
            return {name: moved(value) for name, value in record.items()}
        return tuple(map(moved, record))

    (i,) = pair.changed
    return pair.replaced(inside(pair.one[i]), inside(pair.other[i]))


def check_ledger(ledger: Ledger, budget: Budget | float) -> Fraction:
    budget = Budget.of(budget)
    try:
        ledger.check(budget)
    except OverdrawnError as error:
        raise AuditAlarm(f"the ledger adds up to more than {budget}: {error}") from None
    if isinstance(ledger.total, Fraction):
        return ledger.total
    return Fraction(budget.epsilon) * ledger.rho / (budget.rho or 1)  # the part of ρ that is spent


def check_ledgers(mechanism: str, schema: AnySchema, budget: Budget) -> Fraction:
    """The largest ε that a record can come to, at times to 2^40; an alarm if that is more than the budget."""
    times = [0, *(1 << q for q in range(0, 41, 4))]
    if mechanism == "pmm":
        ledgers = [pmm_ledger(t, schema.partition, budget.epsilon) for t in times]
    else:
        run = mechanism_class(mechanism)(schema, budget, Noise(seed=0))  # nothing is measured with it
        ledgers = [run.ledger(t) for t in times]
    return max(check_ledger(one, budget) for one in ledgers)
