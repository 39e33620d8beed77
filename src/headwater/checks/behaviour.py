"""A run under any sequence of calls: what must hold at every moment, whatever came before."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.checks.cases import Case, expect, expect_refused, same
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.secret.counts import BucketedCounts
from headwater.synthesizer import Synthesizer

SIZES = (0, 1, 2, 3, 7, 16, 33, 64, 120, 300)
BUDGETS = (0.2, 1.0, 30.0)
WALKS, STEPS = 6, 25


def check_a_batch_is_its_records(case: Case) -> None:
    """A batch gives what its records give one by one, and is encoded as they are, each by itself."""
    whole, single, pieces = case.start(8.0), case.start(8.0), case.start(8.0)
    batch = case.batch(150, 1)
    rows = whole.encode(batch)
    expect(rows.ndim == 2 and rows.dtype.kind == "u", "encode() must give rows of unsigned integers")
    each = np.concatenate([whole.encode(batch[i : i + 1]) for i in range(len(batch))])
    expect(np.array_equal(rows, each), "the rows of a batch are not those of its records, each encoded by itself")
    whole.update(batch)
    for i in range(len(batch)):
        single.update(batch[i])
    for start in range(0, len(batch), 37):
        pieces.update_rows(rows[start : start + 37])
    expect(same(whole.release(), single.release()), "a batch gives something else than its records one by one")
    expect(same(whole.release(), pieces.release()), "rows from encode() give something else than their records")


def check_null_records_are_nowhere(case: Case) -> None:
    """A bad record counts in ``t``, takes its place in its bucket, and moves no other count; also after a reload."""
    batch = case.batch(400, 2)
    bad = case.bad_batch(0, 3)
    mixed = [*batch[:100], *bad, *batch[101:300], *bad, *batch[301:]]
    records = mixed if isinstance(case.schema, Schema) else np.array(mixed)
    whole, single, again = case.start(8.0), case.start(8.0), case.start(8.0)
    whole.update(records, bad_rows="null")
    expect(whole.t == 400, "a bad record does not count in t")
    for i in range(len(records)):
        single.update(records[i : i + 1], bad_rows="null")
    again.update(records[:150], bad_rows="null")
    again = Synthesizer.from_bytes(again.to_bytes())
    again.update_rows(again.encode(records[150:], bad_rows="null"))
    expect(same(whole.release(), single.release()), "a batch with bad records gives something else than one by one")
    expect(same(whole.release(), again.release()), "null records are lost when a state is saved")
    expect(whole.tally.bad == 2, "bad records are not tallied")


def check_any_sequence_of_calls(case: Case) -> None:
    """Random walks through all that can be done to a run, beside a run that only takes the records."""
    for number in range(WALKS):
        walk = Walk(case, Random(number))  # noqa: S311 - which steps are taken is no secret
        for _ in range(STEPS):
            walk.step()
        walk.end()


class Walk:
    """A run that is released from, saved, loaded and offered bad batches; and a twin that only takes records."""

    def __init__(self, case: Case, rng: Random) -> None:
        self.case, self.rng = case, rng
        self.epsilon = rng.choice(BUDGETS)
        self.synth, self.twin, self.t = case.start(self.epsilon), case.start(self.epsilon), 0
        self.earlier = list[tuple[Release, bytes]]()

    def step(self) -> None:
        """Do one thing, and look at what must hold after anything."""
        steps = [self.update, self.update_one, self.update_rows, self.refuse, self.refuse_rows, self.release]
        steps += [self.window if self.case.kind.windows else self.refuse_window, self.save, self.pack]
        if hasattr(self.case.kind, "update_counts"):
            steps += [self.update_counts, self.refuse_counts]
        self.rng.choice(steps)()
        expect(self.synth.t == self.twin.t == self.t, f"t is {self.synth.t} after {self.t} records")
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
            for synth in (self.synth, self.twin):
                synth.update(self.case.batch(70, 5))
            self.t += 70

    # ---- records

    def _some(self) -> tuple[int, int]:
        return self.rng.choice(SIZES), self.rng.randrange(10_000)

    def update(self) -> None:
        """A batch."""
        n, seed = self._some()
        for synth in (self.synth, self.twin):
            synth.update(self.case.batch(n, seed))
        self.t += n

    def update_one(self) -> None:
        """One record, not in a batch."""
        one = self.case.batch(1, self.rng.randrange(10_000))[0]
        for synth in (self.synth, self.twin):
            synth.update(one)
        self.t += 1

    def update_rows(self) -> None:
        """A batch that was encoded by another process."""
        n, seed = self._some()
        self.synth.update_rows(self.case.start(self.epsilon).encode(self.case.batch(n, seed)))
        self.twin.update(self.case.batch(n, seed))
        self.t += n

    def update_counts(self) -> None:
        """Records that three processes counted, none of which knows the run or the records of the others."""
        n, seed = self._some()
        batch, numbers = self.case.batch(n, seed), np.random.default_rng(seed).permutation(n)
        self.twin.update(batch)
        until = self.t + n if seed % 2 else None  # in larger buckets, if they are taken at once
        parts = [
            self.case.start(self.epsilon).histogram(_chosen(batch, part), self.t + part, until=until)
            for part in np.array_split(numbers, 3)
        ]
        self.synth.update_counts(BucketedCounts.merge(parts))
        self.t += n

    # ---- what is refused

    def refuse(self) -> None:
        """A batch with one wrong record in it."""
        before, batch = self.synth.to_bytes(), self.case.bad_batch(*self._some())
        expect_refused("a batch with a wrong record", self.synth.update, batch)
        expect_refused("a batch with a wrong record", self.synth.encode, batch)
        expect(self.synth.to_bytes() == before, "a refused batch changed the run")

    def refuse_rows(self) -> None:
        """Rows that encode() cannot have given."""
        before, good = self.synth.to_bytes(), self.synth.encode(self.case.batch(1, 0))
        width = good.shape[1]
        for rows in (good[0], np.full((1, width), -1), np.full((1, width), 0.5), np.zeros((1, width + 1), np.uint64)):
            expect_refused("a row that encode() cannot have given", self.synth.update_rows, rows)
        beyond = np.full((1, width), 1 << 63, dtype=np.uint64)
        expect_refused("a row that stands for nothing", self.synth.update_rows, beyond)
        expect_refused("rows of text", self.synth.update_rows, [["x"] * width])
        expect(self.synth.to_bytes() == before, "refused rows changed the run")

    def refuse_counts(self) -> None:
        """A record that is counted twice, or before one that is not."""
        before, one = self.synth.to_bytes(), self.case.batch(2, 0)
        for numbers in ([self.t, self.t + self.synth.bucket(self.t)[1]], [self.t + self.synth.bucket(self.t)[1]] * 2):
            expect_refused("a gap", self.synth.update_counts, self.synth.histogram(one, numbers))
        expect(self.synth.to_bytes() == before, "refused counts changed the run")

    def refuse_window(self) -> None:
        """A window of a mechanism that has none."""
        if self.t:
            expect_refused("a window", lambda: self.synth.release(since=self.t))

    # ---- releases

    def release(self) -> None:
        """All records. Asking changes nothing."""
        before, release = self.synth.to_bytes(), self.synth.release()
        expect(same(release, self.synth.release()), "asking twice gives two different releases")
        expect(release.span == (0, self.t), f"a release of all {self.t} records is about {release.span}")
        self._look_at(release)
        expect(self.synth.to_bytes() == before, "a release changed the run")

    def window(self) -> None:
        """The last records, said in two ways."""
        before, since = self.synth.to_bytes(), self.rng.randint(0, self.t)
        asked = {"last": max(self.t - since, 1)} if self.rng.random() < 0.5 else {"since": since}
        release = self.synth.release(**asked)
        expect(same(release, self.synth.release(**asked)), "asking twice gives two different windows")
        expect(0 <= release.span[0] <= since and release.span[1] == self.t, "a window must hold what was asked for")
        self._look_at(release)
        expect(self.synth.to_bytes() == before, "a window changed the run")

    def _look_at(self, release: Release) -> None:
        check_release(release)
        if len(self.earlier) < 4:
            self.earlier.append((release, release.points().tobytes()))

    # ---- going on elsewhere

    def save(self) -> None:
        """Through a file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state.hw"
            self.synth.save(path)
            expect(path.read_bytes() == self.synth.to_bytes(), "save() and to_bytes() differ")
            self.synth = Synthesizer.load(path)

    def pack(self) -> None:
        """Through bytes."""
        data = self.synth.to_bytes()
        self.synth = Synthesizer.from_bytes(data)
        expect(self.synth.to_bytes() == data, "a run that was loaded saves something else")


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


CHECKS = (check_a_batch_is_its_records, check_null_records_are_nowhere, check_any_sequence_of_calls)


def _chosen(batch: Any, part: NDArray[np.intp]) -> Any:  # noqa: ANN401 - an array of points, or a list of records
    return batch[part] if isinstance(batch, np.ndarray) else [batch[i] for i in part]
