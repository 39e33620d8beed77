"""A synthesizer under any sequence of calls: what must hold at every moment, whatever came before.

Each machine drives a synthesizer that is released from, saved, loaded and offered bad batches, beside a twin with the
same seed that only ever takes records. The twin says what everything must be.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from numpy.typing import NDArray

import headwater as hw
from headwater.mechanisms.cascade.measure import CascadeMechanism
from headwater.mechanisms.paper.measure import PaperMechanism
from headwater.noise import Noise
from headwater.release.release import Release

SEED = 11
TABLE = hw.Schema(
    size=hw.Number(0, 10),
    age=hw.Integer(0, 120, missing=True, outside="error"),
    paid=hw.Category("card", "cash", "other", other="other"),
)

sizes = st.sampled_from([0, 1, 2, 3, 7, 16, 33, 64, 120, 300])
seeds = st.integers(0, 10_000)


LIMITS = settings(
    max_examples=20,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def records(n: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    ages = [None if age > 110 else int(age) for age in rng.integers(0, 121, n)]
    paid = rng.choice(["card", "cash", "shells"], n).tolist()
    return [{"size": s, "age": a, "paid": p} for s, a, p in zip(rng.gamma(2, 2, n).tolist(), ages, paid, strict=True)]


def same(one: Release, other: Release) -> bool:
    """Whether two releases are alike in everything that they say."""
    arrays = zip(
        (one.leaves.cells, one.leaves.depths, one.leaves.counts),
        (other.leaves.cells, other.leaves.depths, other.leaves.counts),
        strict=True,
    )
    facts = (one.facts, one.span, one.spread, one.seed) == (other.facts, other.span, other.spread, other.seed)
    return facts and all(np.array_equal(a, b) for a, b in arrays)


class Life(RuleBasedStateMachine):
    """Everything that can happen to a synthesizer."""

    mechanism: str
    schema: Any

    @initialize(epsilon=st.sampled_from([0.2, 1.0, 30.0]))
    def begin(self, epsilon: float) -> None:
        self.synth, self.twin = self.fresh(epsilon), self.fresh(epsilon)
        self.t = 0
        self.earlier: list[tuple[Release, NDArray[np.float64]]] = []

    def fresh(self, epsilon: float) -> hw.Synthesizer:
        return hw.Synthesizer(self.schema, epsilon=epsilon, mechanism=self.mechanism, seed=SEED)

    def batch(self, n: int, seed: int) -> Any:  # noqa: ANN401 - points or records
        if isinstance(self.schema, hw.Schema):
            return records(n, seed)
        return np.random.default_rng(seed).beta(0.5, 3, (n, self.schema.dimension))

    # ---- records

    @rule(n=sizes, seed=seeds)
    def update(self, n: int, seed: int) -> None:
        for synth in (self.synth, self.twin):
            synth.update(self.batch(n, seed))
        self.t += n

    @rule(seed=seeds)
    def update_one(self, seed: int) -> None:
        one = self.batch(1, seed)[0]
        for synth in (self.synth, self.twin):
            synth.update(one)
        self.t += 1

    @rule(n=sizes, seed=seeds)
    def located_elsewhere(self, n: int, seed: int) -> None:
        batch = self.batch(n, seed)
        elsewhere = self.fresh(self.synth.epsilon)
        self.synth.take(elsewhere.encode(batch))
        self.synth._kind = self.synth._kind or self.twin._kind  # cells do not say what kind of table they were
        self.twin.update(batch)
        self.t += n

    @precondition(lambda self: self.mechanism == "cascade")
    @rule(n=sizes, seed=seeds)
    def counted_elsewhere(self, n: int, seed: int) -> None:
        n = min(n, self.synth.remaining)
        batch = self.batch(n, seed)
        cells, counts = self.fresh(self.synth.epsilon).histogram(batch)
        self.synth.update_counts(cells, counts)
        self.twin.update(batch)  # within one bucket, order does not matter
        self.t += n

    # ---- what is refused

    @rule(n=sizes, seed=seeds, which=st.integers(0, 3))
    def refused(self, n: int, seed: int, which: int) -> None:
        batch, before = self.batch(n + 1, seed), self.synth.to_bytes()
        if isinstance(self.schema, hw.Schema):
            batch[-1] = batch[-1] | [{"size": None}, {"age": 300}, {"paid": None}, {"more": 1}][which]
        else:
            batch[-1, 0] = (np.nan, -0.1, 1.5, np.inf)[which]
        with pytest.raises((ValueError, hw.TableError)):
            self.synth.update(batch)
        with pytest.raises((ValueError, hw.TableError)):
            self.synth.encode(batch)
        assert self.synth.to_bytes() == before

    @rule(cells=st.sampled_from([[-1], [2**63], [[1]], [0.5], ["x"]]))
    def cells_refused(self, cells: list[Any]) -> None:
        before = self.synth.to_bytes()
        with pytest.raises((ValueError, TypeError, OverflowError)):
            self.synth.take(cells)
        assert self.synth.to_bytes() == before

    @precondition(lambda self: self.mechanism == "cascade")
    @rule()
    def too_many_counts_refused(self) -> None:
        before = self.synth.to_bytes()
        with pytest.raises(ValueError, match="do not fit"):
            self.synth.update_counts([0], [self.synth.remaining + 1])
        assert self.synth.to_bytes() == before

    # ---- releases

    @rule()
    def release(self) -> None:
        before = self.public_state()
        release = self.synth.release()
        assert same(release, self.synth.release())
        assert release.span == (0, self.t)
        self.look_at(release)
        assert self.public_state() == before

    @precondition(lambda self: self.mechanism == "cascade")
    @rule(part=st.floats(0, 1), by_last=st.booleans())
    def window(self, part: float, by_last: bool) -> None:
        before = self.public_state()
        since = int(part * self.t)
        asked = {"last": max(self.t - since, 1)} if by_last else {"since": since}
        release = self.synth.release(**asked)
        assert same(release, self.synth.release(**asked))
        first, last = release.span
        assert 0 <= first <= since
        assert last == self.t
        self.look_at(release)
        assert self.public_state() == before

    @precondition(lambda self: self.mechanism == "paper" and self.t > 0)
    @rule()
    def no_window(self) -> None:
        with pytest.raises(ValueError, match="windows"):
            self.synth.release(since=self.t)

    def look_at(self, release: Release) -> None:
        """What holds of every release."""
        first, last = release.span
        points = release.points()
        assert points.shape == (last - first, self.schema.dimension)
        assert ((points >= 0) & (points <= 1)).all()
        assert (release.leaves.counts >= 0).all()
        assert int(release.leaves.counts.sum()) == last - first
        assert np.array_equal(points, release.points())
        if isinstance(self.schema, hw.Schema):
            back = self.schema.encode(
                release.sample(kind="records")
            )  # every record fits the schema, or this refuses it
            assert len(back) == last - first
        if len(self.earlier) < 4:
            self.earlier.append((release, points))

    # ---- going on elsewhere

    @rule()
    def through_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state.hw"
            self.synth.save(path)
            assert path.read_bytes() == self.synth.to_bytes()
            self.synth = hw.Synthesizer.load(path)

    @rule()
    def through_bytes(self) -> None:
        data = self.synth.to_bytes()
        self.synth = hw.Synthesizer.from_bytes(data)
        assert self.synth.to_bytes() == data

    # ---- what holds at every moment

    def public_state(self) -> bytes:
        """What a release must not change. Cascade may note trees that it would have grown later anyway."""
        header, arrays = self.synth._measure.state()
        kept = [self.synth.t, self.synth._measure.noise.key, header.get("spans"), header.get("levels")]
        return repr(kept).encode() + b"".join(arrays[name].tobytes() for name in sorted(arrays) if name != "splits")

    @invariant()
    def time_is_exact(self) -> None:
        if hasattr(self, "synth"):
            assert self.synth.t == self.twin.t == self.t

    @invariant()
    def the_ledger_closes(self) -> None:
        if not hasattr(self, "synth"):
            return
        measure = self.synth._measure
        if isinstance(measure, CascadeMechanism):
            assert measure.ledger().total <= self.synth.epsilon
        else:
            assert isinstance(measure, PaperMechanism)
            assert measure.ledger(max(measure._now.level, 0)).total <= self.synth.epsilon

    def teardown(self) -> None:
        """The twin, which nobody has disturbed, publishes the same; and what was published stays as it was."""
        if not hasattr(self, "synth"):
            return
        for release, points in self.earlier:
            assert np.array_equal(release.points(), points)
        assert same(self.synth.release(), self.twin.release())
        if self.mechanism == "cascade":
            half = self.t // 2
            assert same(self.synth.release(since=half), self.twin.release(since=half))
        for synth in (self.synth, self.twin):
            synth.update(self.batch(70, 5))
        assert same(self.synth.release(), self.twin.release())


@pytest.mark.parametrize("mechanism", ["cascade", "paper"])
@pytest.mark.parametrize(
    "schema", [hw.unit_cube(1), hw.unit_cube(2), hw.unit_cube(3), TABLE], ids=["1", "2", "3", "table"]
)
def test_whatever_happens_the_invariants_hold(mechanism: str, schema: Any) -> None:  # noqa: ANN401 - of either kind
    run_state_machine_as_test(type("Life", (Life,), {"mechanism": mechanism, "schema": schema}), settings=LIMITS)


class OtherNoise(Life):
    """A run that goes on with other noise after it was saved."""

    mechanism, schema = "cascade", hw.unit_cube(2)

    @rule()
    def through_bytes(self) -> None:
        super().through_bytes()
        self.synth._measure.noise = Noise(seed=12)


class Forgetful(Life):
    """A run that takes the good part of a bad batch."""

    mechanism, schema = "paper", hw.unit_cube(2)

    @rule(n=sizes, seed=seeds, which=st.integers(0, 3))
    def refused(self, n: int, seed: int, which: int) -> None:
        super().refused(n, seed, which)
        self.synth.update(self.batch(n + 1, seed)[:-1])


@pytest.mark.parametrize("machine", [OtherNoise, Forgetful])
def test_the_machine_notices_a_planted_fault(machine: type[Life]) -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=settings(LIMITS, phases=[Phase.generate], max_examples=60))
