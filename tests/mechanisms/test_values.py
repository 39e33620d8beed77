"""A mechanism is a value: an update gives another one, records may come in any pieces, what was kept stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater.secret.noise import Noise
from tests.audit.toys import register_toys
from tests.support.runs import TABLE, plain, same
from tests.support.trees import crowd

CASES: dict[str, dict[str, Any]] = {
    "cascade": {"schema": hw.unit_cube(2), "epsilon": 20.0, "mechanism": "cascade"},
    "cascade, line": {"schema": hw.unit_cube(1), "epsilon": 5.0, "mechanism": "cascade"},
    "cascade, δ": {"schema": hw.unit_cube(2), "epsilon": 8.0, "delta": 1e-6, "mechanism": "cascade"},
    "marginals": {"schema": TABLE, "epsilon": 64.0, "mechanism": "marginals"},
    "marginals, δ": {"schema": hw.unit_cube(5), "epsilon": 16.0, "delta": 0.4, "mechanism": "marginals"},
    "marginals, expected": {"schema": hw.unit_cube(4), "epsilon": 16.0, "expect": 900, "mechanism": "marginals"},
    "paper": {"schema": hw.unit_cube(2), "epsilon": 3.0, "mechanism": "paper"},
    "toy": {"schema": hw.unit_cube(2), "epsilon": 3.0, "mechanism": "toy"},
    "wide toy": {"schema": hw.unit_cube(3), "epsilon": 3.0, "mechanism": "wide toy"},
}
N = 1500
DRAWS = ("laplace_at", "gaussian_at", "jointly_at", "geometric_at", "uniform_at", "further_word")

pytestmark = pytest.mark.filterwarnings("ignore::headwater.DeltaWarning")
every_case = pytest.mark.parametrize("case", CASES)


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    register_toys(monkeypatch)


def start(case: str, seed: int = 1) -> hw.Synthesizer:
    return hw.Synthesizer(**CASES[case], seed=seed)


def records(case: str, n: int = N, seed: int = 0) -> Any:  # noqa: ANN401 - an array, or a list of records
    """Some of them again and again, some missing values, some bad."""
    schema, points = CASES[case]["schema"], crowd(n, CASES[case]["schema"].dimension, seed).round(2)
    if schema is not TABLE:
        points[np.random.default_rng(seed).random(n) < 0.02] = np.nan
        return points
    ages = [int(120 * age) if age > 0.01 else None for age in points[:, 1].tolist()]
    paid, member = np.array(["card", "cash", "coin"])[(2.5 * points[:, 2]).astype(int)], points[:, 3] > 0.5
    columns = 10 * points[:, 0], ages, paid.tolist(), member.tolist()
    return [dict(zip(TABLE.names, record, strict=True)) for record in zip(*columns, strict=True)]


def take(synth: hw.Synthesizer, table: Any) -> hw.Synthesizer:  # noqa: ANN401
    synth.update(table, bad_rows="null")
    return synth


def windows(synth: hw.Synthesizer) -> list[hw.Release]:
    """Releases of everything and, where there are windows, of the last records."""
    return [synth.release(last=last) for last in ((None, 500, 40) if synth.has_windows else (None,))]


def alike(one: hw.Synthesizer, other: hw.Synthesizer) -> bool:
    return one.t == other.t and all(same(*two) for two in zip(windows(one), windows(other), strict=True))


@every_case
def test_batches_and_questions_change_nothing(case: str) -> None:
    """At once, one by one, or in odd pieces that were encoded before, with releases and reloads between them."""
    table, pieces, single = records(case), start(case), start(case)
    whole = take(start(case), table)
    cuts = np.sort(np.random.default_rng(1).integers(0, N, 17)).tolist()
    for number, (first, end) in enumerate(zip([0, *cuts], [*cuts, N], strict=True)):
        pieces.take(whole.encode(table[first:end], bad_rows="null"))
        pieces.ledger()
        if number % 2:
            windows(pieces)
        if number % 3:
            pieces = hw.Synthesizer.from_bytes(pieces.to_bytes())
    for i in range(N):
        take(single, table[i : i + 1])
    assert alike(whole, pieces)
    assert alike(whole, single)
    assert plain(whole.measured()) == plain(pieces.measured()) == plain(single.measured())
    assert plain(start(case, seed=2).measured()) != plain(whole.measured())


@every_case
def test_an_update_leaves_the_mechanism_as_it_was(case: str) -> None:
    """Two updates from one mechanism, each of it with releases, do not disturb each other: nothing is shared."""

    def of(parts: list[hw.Batch]) -> Any:  # noqa: ANN401 - any mechanism
        mechanism = start(case).state.mechanism
        for part in parts:
            mechanism = mechanism.update(part)
        return mechanism

    def shown(mechanism: Any) -> Any:  # noqa: ANN401 - any mechanism
        return plain(mechanism.measured(5)), plain(mechanism.state()), plain(mechanism.kept())

    owner, table = start(case), records(case, 900)
    first, one, other = (owner.encode(table[a:b], bad_rows="null") for a, b in ((0, 300), (300, 340), (340, 900)))
    old = of([first])
    before = shown(old)
    twins = old.update(one), old.update(other)
    later = twins[0].update(other), twins[1].update(one)
    found = [shown(mechanism) for mechanism in (*twins, *later)]
    assert shown(old) == before
    ways = [first, one], [first, other], [first, one, other], [first, other, one]
    for parts, here in zip(ways, found, strict=True):
        fresh = of(parts[:1])
        shown(fresh)  # what is measured when it is asked for was asked for as often
        for part in parts[1:]:
            fresh = fresh.update(part)
            expected = shown(fresh)
        assert here == expected


def nothing_is_drawn(patch: pytest.MonkeyPatch) -> None:
    def refused(draw: Any) -> Any:  # noqa: ANN401 - a method of the noise
        def drawing(self: Noise, *arguments: Any, **more: Any) -> Any:  # noqa: ANN401
            assert self.key == of_ledgers, "something is measured again"
            return draw(self, *arguments, **more)

        return drawing

    of_ledgers = Noise(seed=0).key  # the counters of the paper's ledger have noise, and count nothing
    for name in DRAWS:
        patch.setattr(Noise, name, refused(vars(Noise)[name]))


@every_case
def test_what_was_kept_is_never_measured_again(case: str) -> None:
    """Planted: the run that knows it has another key, so whatever it measured or asked itself would come out otherwise.

    Also from an older state that is loaded and takes the records since then once more, as after a kill.
    """
    table, owner = records(case), start(case)
    take(owner, table[:350])
    older, kept = owner.to_bytes(), dict(owner.state.mechanism.kept())  # as a run writes it down, after each update
    take(owner, table[350:700])
    shown, last = plain(owner.measured()), owner.state.mechanism.kept()
    kept |= last
    other, loaded = start(case, seed=2), hw.Synthesizer.from_bytes(older)
    with pytest.MonkeyPatch.context() as patch:
        nothing_is_drawn(patch)
        for run in (other, loaded):
            run.know(kept)
            take(run, table[run.t : 350])
            take(run, table[350:700])
            assert plain(run.measured()) == shown
            assert plain(run.state.mechanism.kept()) == plain(last)
    for run in (owner, other):
        take(run, table[700:])
        run.measured()
    found, new = owner.state.mechanism.kept(), other.state.mechanism.kept()
    assert found.keys() == new.keys()
    assert new.keys() - kept.keys()
    for span, one in new.items():
        assert (plain(one) == plain(found[span])) == (span in kept)
    again = hw.Synthesizer.from_bytes(other.to_bytes())  # it is kept in a state too
    assert plain(again.measured()) == plain(other.measured())
