"""Person-neighbours under exact laws: of everything that tiny runs publish, and of what is measured under δ."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater.audit import check_sensitivity
from headwater.audit.cases import Case, Pair, people, person_replaced
from headwater.audit.exact import loss_between
from headwater.audit.trace import watching
from headwater.public.budget import Budget, OverdrawnError, record_epsilon
from headwater.public.cascade import plan as plan_module
from headwater.public.cascade.plan import Timescale
from headwater.public.laws import DiscreteGaussian, rho_for
from headwater.public.marginals import plan as marginals_plan
from headwater.public.marginals.codes import NULL
from headwater.secret.bucket import FAST
from headwater.secret.marginals import MarginalsMechanism
from headwater.secret.noise import Noise
from tests.mechanisms.cascade.test_cascade_law import ENDS, ONE, ROUNDING, plan
from tests.support.audit_pairs import people_in_pairs
from tests.support.cascade_law import Law, Stream, Tiny, laws, near

CAP = 2


def loss(found: dict[Stream, Law], places: set[int]) -> float:
    """The largest log ratio of the probabilities of one output, on streams that differ at most at some places."""
    outputs = list(next(iter(found.values())))
    logs = {stream: np.array([law[output] for output in outputs]) for stream, law in found.items()}
    return max(
        float(np.abs(logs[one] - logs[other]).max())
        for one, other in itertools.combinations(found, 2)
        if all(i in places for i in range(len(one)) if one[i] != other[i])
    )


def test_all_records_of_a_person_that_count_cost_epsilon_together_and_no_less() -> None:
    """Every output of two records in two buckets, the second of them over trees chosen by the first: ε/2 each."""
    epsilon = 24.0
    tiny = Tiny(record_epsilon(epsilon, CAP), ENDS, (1, 1), plan(2, Timescale(1, 12.0, 6), first=ONE))
    found = laws(tiny, near(tiny, 1e-3))
    assert 0.9 * epsilon / 2 < max(loss(found, {0}), loss(found, {1})) <= epsilon / 2 * (1 + ROUNDING)
    assert 0.9 * epsilon < loss(found, {0, 1}) <= epsilon * (1 + ROUNDING)


@dataclass(frozen=True)
class Moved(Pair):
    """Two streams with any number of differences: no neighbours."""

    def __post_init__(self) -> None:
        pass


def moved(mechanism: str, epsilon: float) -> Case:
    """A person whose records come at other times: at each place either stream has one of them, or nobody's."""
    case = next(iter(people(mechanism, epsilon, noisy_counts=True)))
    length, person = len(case.pair.one), len(case.pair.one) + 2
    early, late = range(3), range(length - 3, length)
    background = [dict(row) for row in case.pair.one if isinstance(row, dict)]
    for i, row in enumerate(background):
        if row["person"] == person:
            background[i] = {"x0": 0.1, "person": 10**6 + i}
    sides = [list(background), list(background)]
    for side, here, there in ((sides[0], early, late), (sides[1], late, early)):
        for place in here:
            side[place] = {"x0": 0.9, "person": person}
        for place in there:
            side[place] = {"x0": 0.9, "person": None}
    return replace(case, pair=Moved(case.pair.schema, tuple(sides[0]), tuple(sides[1]), "person"))


@pytest.mark.parametrize("mechanism", ["cascade", "paper"])
def test_records_of_a_person_at_other_times_cost_no_more(mechanism: str) -> None:
    """A null record moves half of what another record moves."""
    assert 0 < check_sensitivity(moved(mechanism, 192.0), outputs=1).bound <= 192


def test_in_marginals_they_cost_less_than_twice_as_much() -> None:
    assert 0 < loss_between(moved("marginals", 192.0)).bound < 2 * 192


def costs_in_rho(one: list[int], other: list[int], until: int) -> tuple[list[int], list[float], Any]:
    """How many tables each timescale has, what two streams cost there, and the stage.

    A person says yes in all columns at the places ``one``, or at the places ``other``; those of the other stream are
    null. Both streams publish the same numbers.
    """
    columns = 12
    schema, budget = hw.Schema({f"c{i}": hw.Boolean() for i in range(columns)}), Budget(128.0, 0.3)
    measured = []
    for here, there in ((one, other), (other, one)):
        mechanism = MarginalsMechanism(schema, budget, Noise(0))
        rows = np.arange(until)[:, None] // np.arange(1, columns + 1) % 2
        rows[here], rows[there] = 1, NULL
        with watching(lambda address: hash(address[1:]) % 5) as record:
            mechanism = mechanism.update(hw.Batch(rows.astype(np.uint16)))
        stage = mechanism.stage_at(one[0])
        measured.append([m for m in record if stage.start <= m.addresses[0][1] < stage.end])
    tables, costs = [0, 0], [Fraction(0), Fraction(0)]
    for a, b in zip(*measured, strict=True):
        assert (a.law, a.addresses) == (b.law, b.addresses)
        assert isinstance(a.law, DiscreteGaussian)
        kind = int(a.addresses[0][2] >> 46 == FAST)
        tables[kind] += 1
        costs[kind] += sum((a.law.rho(int(shift)) for shift in np.abs(a.true - b.true)), Fraction(0))
    return tables, [float(cost) for cost in costs], stage


@pytest.mark.parametrize("records", [1, 3])
def test_records_in_another_fast_bucket_cost_at_most_twice_the_fast_part(records: int) -> None:
    """Yes-or-no columns: a null record costs as much as a replaced one, and here one goes and one comes."""
    early = list(range(256, 256 + records))
    for late, times in ((range(280, 280 + records), 0), (range(300, 300 + records), 2)):
        tables, (slow, fast), stage = costs_in_rho(early, list(late), 512)
        assert (stage.start, stage.end, stage.fast) == (256, 512, 32)
        assert min(tables) > 0
        assert slow == 0
        most = times * records**2 * float(stage.fast_budget)
        assert 0.99 * most <= fast <= most
    one, other = [*early, 300], [*range(320, 320 + records), 301]
    _, (slow, fast), stage = costs_in_rho(one, other, 512)
    assert slow == 0
    squares = sum(max(sum(i // 32 == f for i in side) for side in (one, other)) ** 2 for f in range(16))
    assert fast <= squares * float(stage.fast_budget) <= (len(one) ** 2 + len(other) ** 2) * float(stage.fast_budget)


def rho_between(person: hw.Person, places: list[int], monkeypatch: pytest.MonkeyPatch) -> Fraction:
    """The ρ of two streams that differ in all records of one person: squares of what counts move by, over 2σ²."""
    schema = hw.Schema({f"c{i}": hw.Category(*"abcd") for i in range(9)})
    tables: list[dict[tuple[int, ...], tuple[float, Any]]] = []

    def watched(self: Noise, scale: float, hi: Any, lo: Any) -> Any:  # noqa: ANN401
        his, los = np.broadcast_arrays(np.asarray(hi, np.uint64), np.asarray(lo, np.uint64))
        for address in zip(his.ravel().tolist(), los.ravel().tolist(), strict=True):
            tables[-1][address] = (scale, None)
        return np.zeros(his.shape, dtype=np.int64)

    monkeypatch.setattr(Noise, "gaussian_at", watched)
    counts: list[Any] = []
    for value in ("a", "d"):
        tables.append({})
        synth = hw.Synthesizer(schema, epsilon=1.0, delta=1e-9, mechanism="marginals", person=person, seed=1)
        end = synth.state.mechanism.spans(synth.state.mechanism.spans(0)[0].end)[0].end
        mine = np.isin(np.arange(end), places)
        column = np.where(mine, value, "b")
        synth.update({**dict.fromkeys(schema.names, column), "who": np.where(mine, end + 1, np.arange(end))})
        counts.append(synth.measured())
    assert tables[0] == tables[1]
    cost = Fraction(0)
    for one, other in zip(counts[0].tables, counts[1].tables, strict=True):
        law = DiscreteGaussian(one.scale)
        cost += sum((law.rho(int(shift)) for shift in np.abs(one.counts - other.counts).ravel() if shift), Fraction(0))
    return cost


def test_with_delta_the_measured_shifts_cost_no_more_than_rho(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve records in the first bucket and twelve in the next one: with a cap for buckets, and without."""
    places = [*range(12), *range(4000, 4012)]
    for person in (hw.Person("who", records=8), hw.Person("who", records=8, per_bucket=4)):
        cost = rho_between(person, places, monkeypatch)
        assert rho_for(1.0, 1e-9) / 4 < cost <= rho_for(1.0, 1e-9)


@pytest.mark.parametrize("columns", [1, 2, 6, 20])
def test_with_a_cap_for_buckets_all_records_of_a_person_are_counted_in_one_currency(columns: int) -> None:
    """In ε or in ρ, at all times, whichever has less noise: a sum of both would bound nothing."""
    schema = hw.Schema({f"c{i}": hw.Number(0, 1) for i in range(columns)})
    seen = set()
    for records, per_bucket in [(20, 10), (20, 2), (1000, 1), (2, 1)]:
        person = hw.Person("who", records=records, per_bucket=per_bucket)
        synth = hw.Synthesizer(schema, epsilon=1.0, delta=1e-9, person=person)
        kinds = {synth.ledger(1 << q).total < math.inf for q in range(45)}
        assert len(kinds) == 1
        (pure,) = kinds
        seen.add(pure)
        squares = records * (per_bucket or records)
        for q in range(45):
            ledger = synth.ledger(1 << q)
            assert (records * ledger.total <= 1) if pure else (squares * ledger.rho <= rho_for(1.0, 1e-9))
    assert False in seen
    assert columns > 2 or True in seen


@pytest.mark.parametrize(
    ("columns", "early", "late"), [(3, True, True), (4, True, False), (8, True, False), (9, False, False)]
)
def test_without_one_stages_in_epsilon_come_before_stages_in_rho(columns: int, early: bool, late: bool) -> None:
    """Each is what has less noise for its tables, as for records; the plan and the card name the law."""
    schema = hw.Schema({f"c{i}": hw.Category("a", "b", "c") for i in range(columns)})
    mechanism = {"mechanism": "marginals", "delta": 1e-9, "epsilon": 1.0}
    synth = hw.Synthesizer(schema, person=hw.Person("who", records=20), **mechanism)  # type: ignore[arg-type]
    alone = hw.Synthesizer(schema, **{**mechanism, "epsilon": 1 / 20})  # type: ignore[arg-type]
    kinds = [synth.state.mechanism.ledger(1 << q).total < math.inf for q in range(45)]
    assert (kinds[0], kinds[-1]) == (early, late)
    assert kinds == sorted(kinds, reverse=True)
    for q, pure in enumerate(kinds):
        ledger = synth.state.mechanism.ledger(1 << q)
        assert (20 * ledger.total <= 1) if pure else (400 * ledger.rho <= rho_for(1.0, 1e-9))
    if early and not late:
        assert str(synth.plan(1 << 24)).count("ρ, Gaussian") not in (0, str(synth.plan(1 << 24)).count("\n"))
    plans: list[Any] = [one.plan(1 << 20) for one in (alone, synth)]
    assert len(plans[0].stages) == len(plans[1].stages)


@pytest.mark.parametrize("delta", [1e-300, 1e-9, 0.01, 0.3, 0.5])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 16.0, 1000.0])
def test_a_part_of_epsilon_keeps_the_square_of_that_part_of_rho(epsilon: float, delta: float) -> None:
    for part in (1e-3, 0.05, 1 / 3, 0.5, 0.9, 0.999):
        assert rho_for(part * epsilon, delta) >= Fraction(part) ** 2 * rho_for(epsilon, delta) * (
            1 - Fraction(1, 10**9)
        )


def crossing(first: int) -> Case:
    """Two columns whose first stages count in ε and the one with pairs in ρ; so many of three records come early."""
    whole = people_in_pairs(16.0, delta=CROSSING)
    experiment = next(one for one in whole if "all that count in one bucket" in one.name)
    early, late = experiment.times
    person, points = late + 2, np.full((late, 2), 0.1)
    owners = list(range(late))
    for place in [*range(first), *range(late - 3 + first, late)]:
        owners[place], points[place] = person, 0.9
    assert early < late - 3
    return replace(experiment, pair=person_replaced(points, owners, 0.1, person))


CROSSING = 0.261  # 8·2·ρ < ε² < 8·3·ρ at ε = 16: two tables count in ε, three in ρ


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_people_in_epsilon_first_and_in_rho_later_cost_at_most_epsilon(first: int) -> None:
    """However their records lie: nearly all of ε, but for the choice of a pair, of which there is one."""
    experiment = crossing(first)
    found = check_sensitivity(experiment, outputs=1)
    assert float(found.pure) == pytest.approx(first * 16 / 3)
    assert float(found.gaussian / rho_for(16.0, CROSSING)) == pytest.approx(0.98 * ((3 - first) / 3) ** 2)
    assert 15.3 < float(found.pure) + 16 * math.sqrt(found.gaussian / rho_for(16.0, CROSSING)) <= 16
    assert found.cost(experiment.claim) <= 16


def test_epsilon_comes_before_rho_or_the_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that counts late stages in ε again, and one that mixes them under a cap for buckets."""
    schema = hw.Schema({f"c{i}": hw.Category("a", "b", "c") for i in range(6)})
    currency = marginals_plan.currency

    def turned(budget: Budget, columns: int, tables: int) -> Any:  # noqa: ANN401
        return currency(budget, columns, 6 if tables > 12 else 12)

    def begin(person: hw.Person) -> None:
        hw.Synthesizer(schema, epsilon=1.0, delta=1e-9, mechanism="marginals", person=person)

    begin(hw.Person("who", records=20))
    with monkeypatch.context() as patched:
        patched.setattr(marginals_plan, "currency", turned)
        with pytest.raises(OverdrawnError, match="do not add up"):
            begin(hw.Person("who", records=20))
    mixed = lambda budget, columns, tables: currency(replace(budget, per_bucket=None), columns, tables)  # noqa: E731
    monkeypatch.setattr(marginals_plan, "currency", mixed)
    with pytest.raises(OverdrawnError, match="do not add up"):
        begin(hw.Person("who", records=20, per_bucket=10))


def test_a_plan_that_mixes_currencies_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: early stages in ε, later ones in ρ, each within what one record may cost."""
    real = plan_module.with_law

    def mixed(scales: tuple[Timescale, ...], budget: Budget) -> tuple[Timescale, ...]:
        return real(scales, replace(budget, records=1, whole=None, delta=0.0) if scales[0].size < 5000 else budget)

    monkeypatch.setattr(plan_module, "with_law", mixed)
    person = hw.Person("who", records=100, per_bucket=10)
    with pytest.raises(OverdrawnError, match="do not add up"):
        hw.Synthesizer(hw.Schema(x=hw.Number(0, 1), y=hw.Number(0, 1)), epsilon=1.0, delta=1e-9, person=person)
