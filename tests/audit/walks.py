"""A run under any sequence of calls: what must hold at every moment, whatever came before."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.audit.conformance import CheckFailed, Subject, check_release, expect, same
from headwater.public.release import Release
from headwater.secret.batch import Batch
from headwater.secret.noise import Noise
from headwater.synthesizer import Synthesizer

SIZES = (0, 1, 2, 3, 7, 16, 33, 64, 120, 300)
BUDGETS = (0.2, 1.0, 30.0)
WALKS, STEPS = 6, 25


def expect_refused(what: str, call: Callable[..., object], *arguments: object) -> None:
    """Fail unless a call raises an error that says that its arguments are wrong."""
    try:
        call(*arguments)
    except (ValueError, TypeError, OverflowError):
        return
    raise CheckFailed(f"{what} was taken, and must be refused")


def check_any_sequence_of_calls(case: Subject) -> None:
    """Random walks through all that can be done to a run, beside a run that only takes the records."""
    for number in range(WALKS):
        walk = Walk(case, Random(number))  # noqa: S311 - which steps are taken is no secret
        for _ in range(STEPS):
            walk.step()
        walk.end()


class Walk:
    """A run that takes records in every way, is released from, saved, loaded and offered bad batches; and a twin.

    The twin takes the same records, some of them bad ones, a few at a time.
    """

    def __init__(self, case: Subject, rng: Random) -> None:
        self.case, self.rng, self.epsilon = case, rng, rng.choice(BUDGETS)
        self.synth, self.twin, self.t = self._start(), self._start(), 0
        self.earlier = list[tuple[Release, bytes]]()
        self.steps = [self._update, self._one_by_one, self._elsewhere, self._refuse, self._release, self._reload]
        if case.kind(case.schema, case.budget(self.epsilon), Noise(seed=0)).spans(0):
            self.steps += [self._counted, self._refuse_counts]

    def _start(self) -> Synthesizer:
        return self.case.start(self.epsilon)

    def step(self) -> None:
        """Do one thing, and look at what must hold after anything."""
        self.rng.choice(self.steps)()
        expect(self.synth.t == self.twin.t == self.t, f"t is {self.synth.t} after {self.t} records")
        expect(self.synth.tally.bad == self.twin.tally.bad, "bad records are tallied otherwise")
        self.synth.ledger().check(self.case.budget(self.epsilon))

    def end(self) -> None:
        """The twin, which nobody has disturbed, publishes the same; and what was published stays as it was."""
        for release, points in self.earlier:
            expect(release.points().tobytes() == points, "a release changed after it was made")
        for _ in range(2):
            expect(same(self.synth.release(), self.twin.release()), "an undisturbed run publishes something else")
            if self.case.kind.windows:
                windows = [synth.release(since=self.t // 2) for synth in (self.synth, self.twin)]
                expect(same(*windows), "a window of an undisturbed run is another one")
            self._update()

    def _some(self, most: int = SIZES[-1]) -> Any:  # noqa: ANN401 - an array of points, or a list of records
        """Records that the twin takes, of which the last one is bad now and then."""
        n, seed = self.rng.choice([size for size in SIZES if size <= most]), self.rng.randrange(10_000)
        batch = self._bad(n - 1, seed) if n and seed % 3 == 0 else self.case.batch(n, seed)
        for start in range(0, n, 37):
            self.twin.update(batch[start : start + 37], bad_rows="null")
        self.t += n
        return batch

    def _bad(self, n: int, seed: int) -> Any:  # noqa: ANN401 - as `_some`
        """A batch whose last record is not one."""
        batch, which = self.case.batch(n + 1, seed), seed % 4
        if isinstance(batch, list):
            wrong: list[dict[str, object]] = [{"size": None}, {"age": 300}, {"paid": None}, {"more": 1}]
            batch[-1] = batch[-1] | wrong[which]
        else:
            batch[-1, 0] = (np.nan, -0.1, 1.5, np.inf)[which]
        return batch

    def _update(self) -> None:
        self.synth.update(self._some(), bad_rows="null")

    def _one_by_one(self) -> None:
        for record in self._some(33):
            self.synth.update(record, bad_rows="null")

    def _elsewhere(self) -> None:
        """A batch that was encoded by another process."""
        self.synth.take(self._start().encode(self._some(), bad_rows="null"))

    def _counted(self) -> None:
        """Records that three processes counted, none of which knows the run or the records of the others."""
        first, batch, seed = self.t, self._some(), self.rng.randrange(10_000)
        until = self.t if seed % 2 else None  # in larger buckets, if they are taken at once
        parts = [
            self._start().encode(_chosen(batch, part), first + part, until, bad_rows="null")
            for part in np.array_split(np.random.default_rng(seed).permutation(len(batch)), 3)
        ]
        self.synth.take(Batch.merge(parts))

    def _refuse(self) -> None:
        """A batch with one wrong record in it; and rows that encode() cannot have given."""
        before, batch = self.synth.to_bytes(), self._bad(self.rng.choice(SIZES), self.rng.randrange(10_000))
        expect_refused("a batch with a wrong record", self.synth.update, batch)
        expect_refused("a batch with a wrong record", self.synth.encode, batch)
        good = self.synth.encode(self.case.batch(1, 0)).rows
        beyond, text = np.full(good.shape, 1 << 63, dtype=np.uint64), good.astype(str)
        wrong: list[Any] = [good[0], -1 + 0 * good.astype(int), 0.5 * good, np.hstack([good, good]), beyond, text]
        for rows in wrong:
            expect_refused("a row that encode() cannot have given", self.synth.take, Batch(rows))
        expect(self.synth.to_bytes() == before, "a refused batch changed the run")

    def _refuse_counts(self) -> None:
        """A record that is counted twice, or before one that is not."""
        before, one = self.synth.to_bytes(), self.case.batch(2, 0)
        later = self.t + self.synth.bucket(self.t).end
        for numbers in ([self.t, later], [later, later]):
            expect_refused("a gap", self.synth.take, self.synth.encode(one, numbers))
        expect(self.synth.to_bytes() == before, "refused counts changed the run")

    def _release(self) -> None:
        since = self.rng.choice([0, self.rng.randint(0, self.t)])
        asked = {"last": max(self.t - since, 1)} if since % 2 else {"since": since}
        if since and not self.case.kind.windows:
            expect_refused("a window", lambda: self.synth.release(**asked))
            return
        release = self.synth.release(**asked)
        first, last = release.span
        expect(same(release, self.synth.release(**asked)), "asking twice gives two different releases")
        expect(0 <= first <= since and last == self.t, f"a release from {since} on is about {release.span}")
        check_release(release)
        if len(self.earlier) < 4:
            self.earlier.append((release, release.points().tobytes()))

    def _reload(self) -> None:
        """Saved, loaded, and told what was measured before."""
        data, kept = self.synth.to_bytes(), self.synth.state.mechanism.kept()
        self.synth = Synthesizer.from_bytes(data)
        expect(self.synth.to_bytes() == data, "a run that was loaded saves something else")
        if self.rng.random() < 0.5:
            self.synth.know(kept)


def _chosen(batch: Any, part: NDArray[np.intp]) -> Any:  # noqa: ANN401 - an array of points, or a list of records
    return batch[part] if isinstance(batch, np.ndarray) else [batch[i] for i in part]
