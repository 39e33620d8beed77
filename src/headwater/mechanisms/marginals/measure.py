"""Marginals: noisy contingency tables of one and two columns, per bucket of time. The only reader of data.

When a slow bucket closes, one-way marginals are measured first. By what they say and what was published before, pairs
of columns are chosen, partly by a private choice, and measured; then pairs that the published model predicts badly.
All of this happens at bucket ends, whoever asks and whenever.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.measure.budget import Ledger, scale_for
from headwater.measure.noise import Noise
from headwater.mechanisms.marginals.bins import cut, profile
from headwater.mechanisms.marginals.codes import Codes, codings, encode
from headwater.mechanisms.marginals.counting import Question, count
from headwater.mechanisms.marginals.measured import Integers, Measured, NoisyTable
from headwater.mechanisms.marginals.plan import Plan, divide, plan, stage_at, variance
from headwater.mechanisms.marginals.prediction import Pair, Prediction
from headwater.mechanisms.marginals.saving import pack, unpack
from headwater.mechanisms.marginals.selection import choose, distance, scale_of
from headwater.partition import Points
from headwater.table.schema import Schema
from headwater.table.unit_cube import UnitCube

MOST_BINS = 256  # of a column, in a one-way table
PAIR_BINS = 32  # of an ordered column, in a table of two
MOST_CELLS = 1 << 14  # larger tables of two columns are never asked for
MOST_CANDIDATES = 1 << 10  # pairs that are counted in one bucket
ENOUGH = 6.0  # a one-way bin is halved if it is expected to hold so many times the scale of its noise
PAIR_LEAST = (0.0, 0.015, 0.015, 0.015, 1 / 12)  # a bin of a pair is halved if it holds so much, by level
EXTRAS = 0.5  # pairs beyond the tree, for each column
EXTRA_WEIGHT = 1.2  # the budget of such a pair beside that of one of the tree
CELLS, PATHS = 0.35, 0.1  # pairs share their budget by these powers of their cells and of the paths through them
MEMORY = 0.2  # what is added, for each record, to the score of a pair of the published tree
TREE_PENALTY, EXTRA_PENALTY = 0.25, 0.5  # the part of the expected noise that is taken off a score
FLOOR = 0.02  # a prediction is mixed with so much of an even one: nothing is impossible


class MarginalsMechanism:
    """The mechanism for wide tables: same promise as cascade's, made for many columns.

    Parameters
    ----------
    schema
        What a record is.
    epsilon
        The privacy budget of the whole run.
    noise
        Where protecting randomness is drawn.

    Formal guarantees
    -----------------
    All tables at all times together are ε-differentially private for replacing one record, of any stream, chosen
    adaptively or not. The record lies in one bucket of each timescale. There it moves two counts of each table by one,
    and every score of a choice by at most two; the budgets of the tables and choices of its buckets add up to at most ε
    on every path of outcomes (`Stage.ledger`, `proofs/marginals.md`).
    """

    name = "marginals"
    version = 1
    windows = True

    def __init__(self, schema: Schema | UnitCube, epsilon: float, noise: Noise) -> None:
        self.schema, self.epsilon, self.noise, self.t = schema, epsilon, noise, 0
        self.codings = codings(schema)
        self.tables: list[NoisyTable] = []  # all that was ever measured, by end of bucket
        self.stage = stage_at(0, epsilon, len(self.codings))
        self._codes = self._room(0)

    def encode(self, points: Points) -> Codes:
        """What is kept of points: a code for each column. Reads nothing of the run."""
        return encode(points, self.schema)

    def update(self, rows: Codes) -> None:
        """Take records in order of arrival, as `encode` gives them."""
        if rows.ndim != 2 or rows.shape[1] != len(self.codings) or rows.dtype.kind != "u":
            raise ValueError(f"rows of codes must have shape (n, {len(self.codings)}), as encode() gives them")
        if len(rows) and any(int(rows[:, i].max()) >= coding.size for i, coding in enumerate(self.codings)):
            raise ValueError("a code is beyond the values of its column; give rows as encode() gives them")
        while len(rows):
            held, end = self.t - self.stage.start, self.stage.fast_end(self.t)
            take = min(end - self.t, len(rows))
            if held + take > self._codes.shape[1]:
                grown = self._room(min(max(2 * held, held + take, 1 << 12), self.stage.size))
                grown[:, :held] = self._codes[:, :held]
                self._codes = grown
            self._codes[:, held : held + take] = rows[:take].T
            self.t += take
            rows = rows[take:]
            if self.t == end:
                self._close()

    def _room(self, records: int) -> Codes:
        return np.empty((len(self.codings), records), dtype=np.uint16)

    def _close(self) -> None:
        """Measure the buckets that end now."""
        stage, found = self.stage, list[NoisyTable]()
        if stage.fast:
            found += self._fast()
        if self.t == stage.end:
            found += Slow(self, found).tables()
            stage = stage_at(self.t, self.epsilon, len(self.codings))
        self.tables += found
        if stage is not self.stage:
            self.stage = stage
            self._codes = self._room(0)

    def _fast(self) -> list[NoisyTable]:
        """One-way tables of the fast bucket that ends now, for the columns that published numbers say have moved."""
        stage = self.stage
        start = self.t - 1 - (self.t - 1 - stage.start) % stage.fast
        bucket = Bucket(self, 1, start, self.t)
        return bucket.one_way(stage.fast_budget, [1.0] * len(self.codings), self.tables)

    def measured(self, since: int = 0) -> Measured:
        """What is published about the records after the first ``since`` ones, or a few more: whole buckets only."""
        start = max((table.start for table in self.tables if table.start <= since), default=0) if since else 0
        return Measured(self.t, start, self.epsilon, self.codings, tuple(self.tables))

    def ledger(self) -> Ledger:
        """What one record arriving now can move."""
        return self.stage.ledger()

    def plan(self, until: int) -> Plan:
        """The schedule up to some time."""
        return plan(len(self.codings), self.epsilon, until)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything that is needed to go on, but for the key: as secret as the data."""
        return pack(self.t, self.tables, self._codes[:, : self.t - self.stage.start])

    def restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a `state`; a file that is none is refused."""
        t, tables, codes = unpack(header, arrays, self.codings, self.epsilon)
        self.t, self.tables, self._codes = t, tables, codes
        self.stage = stage_at(t, self.epsilon, len(self.codings))


class Bucket:
    """One bucket that has closed: its records, and the addresses of its noise."""

    def __init__(self, run: MarginalsMechanism, timescale: int, start: int, end: int) -> None:
        self.codings, self.noise = run.codings, run.noise
        self.timescale, self.start, self.end = timescale, start, end
        self.codes = run._codes[:, start - run.stage.start : end - run.stage.start]

    @property
    def size(self) -> int:
        """How many records there are. Public."""
        return self.end - self.start

    def one_way(self, budget: Fraction, weights: Sequence[float], known: Sequence[NoisyTable]) -> list[NoisyTable]:
        """One-way tables, with bins as fine as their noise allows."""
        questions, columns = list[Question](), [i for i, weight in enumerate(weights) if weight > 0]
        if not columns:
            return []
        share = float(budget) / len(columns)
        for i in columns:
            least = ENOUGH * 2 / share / self.size
            edges = cut(self.codings[i], profile(i, self.codings[i], known), (least,), MOST_BINS)
            questions.append(Question((i,), (edges,)))
        costs = [weights[q.columns[0]] * math.sqrt(q.cells) for q in questions]
        counts = count(self.codes, questions, self.codings)
        return [self.publish(*asked) for asked in zip(questions, counts, divide(budget, costs), strict=True)]

    def publish(self, question: Question, counts: Integers, budget: Fraction) -> NoisyTable:
        """The only place that turns counts into numbers that may be seen.

        Replacing a record moves two counts by one each. The counts of a table of two cells add up to the public number
        of records, so there one draw is enough, and one count moves by one.
        """
        first, last = question.columns[0], question.columns[-1]
        lo = self.timescale << 46 | first << 34 | last << 24
        single = question.shape == (2,)
        scale = scale_for(budget if single else budget / 2)
        noise = self.noise.laplace_at(scale, self.start, np.uint64(lo) + np.arange(question.cells, dtype=np.uint64))
        if single:
            noise[0] = -noise[1]
        noisy = counts + noise.reshape(counts.shape)
        return NoisyTable(question.columns, self.start, self.end, question.edges, noisy, scale, variance(scale))

    def choose(self, scores: dict[Pair, int], scale: float, phase: int, round_: int) -> Pair:
        """The pair that a private choice with these scores takes."""
        lo = 1 << 45 | self.timescale << 46 | phase << 44 | round_ << 24
        pairs = list(scores)
        return pairs[choose([scores[pair] for pair in pairs], scale, self.noise, self.start, lo)]


class Slow:
    """The measurements of a slow bucket, in order: one-way marginals, the pairs of a tree, pairs beyond it."""

    def __init__(self, run: MarginalsMechanism, fast: Sequence[NoisyTable]) -> None:
        self.run, self.stage = run, run.stage
        self.bucket = Bucket(run, 0, run.stage.start, run.stage.end)
        self.found, self.before = list[NoisyTable](), [*run.tables, *fast]

    def tables(self) -> list[NoisyTable]:
        """All tables of the bucket."""
        stage, bucket, columns = self.stage, self.bucket, len(self.run.codings)
        before = self.predict()
        given = before.given()
        weights = [0.0 if i in given else 1.0 for i in range(columns)]
        asked = [i for i, weight in enumerate(weights) if weight]
        one_way = stage.one_way * len(asked) / columns if stage.pairs else stage.one_way
        self.found += bucket.one_way(one_way, weights, self.before)
        if not stage.pairs or columns < 2:
            return self.found
        budget = stage.pairs + stage.one_way - one_way
        questions = self.candidates(before)
        self.counts = dict(zip(questions, count(bucket.codes, list(questions.values()), bucket.codings), strict=True))
        self.questions = questions
        extras = min(round(EXTRAS * columns), len(questions) - columns + 1) if stage.extra_choice else 0
        extras = max(extras, 0)
        part = Fraction(round(1000 * extras * EXTRA_WEIGHT), round(1000 * (extras * EXTRA_WEIGHT + columns - 1)))
        tree, spent = self.tree(self.predict(), before.kept & questions.keys(), budget * (1 - part))
        budget += stage.tree_choice - spent
        paths = routes(tree, columns)
        self.ask(tree, budget * (1 - part), [questions[p].cells ** CELLS * n**PATHS for p, n in paths.items()])
        if extras:
            further = self.further(self.predict(), set(tree), extras, budget * part)
            self.ask(further, budget * part, [questions[p].cells ** CELLS for p in further])
        return self.found

    def predict(self) -> Prediction:
        """What is published by now predicts of this bucket."""
        return Prediction(self.run.codings, [*self.before, *self.found], self.bucket.start, self.bucket.end)

    def candidates(self, before: Prediction) -> dict[Pair, Question]:
        """The pairs that may be asked for, and their bins."""
        codings, known = self.run.codings, [*self.before, *self.found]
        edges = [cut(coding, profile(i, coding, known), PAIR_LEAST, PAIR_BINS) for i, coding in enumerate(codings)]
        pairs = [(a, b) for a, b in combinations(range(len(codings)), 2) if len(edges[a]) * len(edges[b]) <= MOST_CELLS]
        if len(pairs) > MOST_CANDIDATES:
            pairs = rotate(pairs, before.tree, self.stage.start.bit_length())
        return {(a, b): Question((a, b), (edges[a], edges[b])) for a, b in pairs}

    def ask(self, pairs: Sequence[Pair], budget: Fraction, weights: Sequence[float]) -> None:
        """Measure these pairs."""
        if pairs:
            shares = divide(budget, weights)
            self.found += [
                self.bucket.publish(self.questions[pair], self.counts[pair], share)
                for pair, share in zip(pairs, shares, strict=True)
            ]

    def tree(self, known: Prediction, kept: set[Pair], budget: Fraction) -> tuple[list[Pair], Fraction]:
        """The pairs of a spanning tree: the kept ones, and others chosen one by one; and what the choices cost."""
        columns = len(self.run.codings)
        tree, group = list[Pair](), list(range(columns))
        for pair in sorted(kept):
            tree.append(pair)
            group = joined(group, pair)
        rounds, spent = columns - 1 - len(tree), Fraction(0)
        if not rounds:
            return tree, spent
        each = self.stage.tree_choice / (columns - 1)
        bonus = round(MEMORY * self.bucket.size)
        scores = self.scores(known.independent(self.questions), budget / (columns - 1), TREE_PENALTY)
        scores = {pair: score + bonus * (pair in known.tree) for pair, score in scores.items()}
        for round_ in range(rounds):
            open_ = {pair: score for pair, score in scores.items() if group[pair[0]] != group[pair[1]]}
            if not open_:
                break
            pair = self.bucket.choose(open_, scale_of(each), 0, round_)
            spent += each
            tree.append(pair)
            group = joined(group, pair)
        return tree, spent

    def further(self, known: Prediction, done: set[Pair], extras: int, budget: Fraction) -> list[Pair]:
        """Pairs beyond the tree that the published model predicts worst, chosen one by one."""
        rest = {pair: question for pair, question in self.questions.items() if pair not in done}
        scores, chosen = self.scores(known.joint(rest), budget / extras, EXTRA_PENALTY), list[Pair]()
        for round_ in range(min(extras, len(scores))):
            pair = self.bucket.choose(scores, scale_of(self.stage.extra_choice / extras), 1, round_)
            chosen.append(pair)
            del scores[pair]
        return chosen

    def scores(self, predicted: dict[Pair, NDArray[np.float64]], each: Fraction, penalty: float) -> dict[Pair, int]:
        """How far each pair is from its prediction, less what sampling and noise would do; of sensitivity 2.

        All but `distance` is public.
        """
        found, size = dict[Pair, int](), self.bucket.size
        for pair, shares in predicted.items():
            expected = size * ((1 - FLOOR) * shares + FLOOR / shares.size)
            sampling = np.minimum(2 * expected, np.sqrt(2 / math.pi * expected)).sum()
            noise = np.minimum(1 / float(each), expected).sum()
            whole = np.rint(expected).astype(np.int64)
            found[pair] = distance(self.counts[pair], whole) - round(float(sampling + penalty * noise))
        return found


def joined(group: Sequence[int], pair: Pair) -> list[int]:
    """Groups of columns after a pair has joined two of them."""
    return [group[pair[0]] if g == group[pair[1]] else g for g in group]


def routes(tree: Sequence[Pair], columns: int) -> dict[Pair, int]:
    """For each edge of a tree, how many pairs of columns are joined through it."""
    found = {}
    for edge in tree:
        group = list(range(columns))
        for pair in tree:
            if pair != edge:
                group = joined(group, pair)
        found[edge] = group.count(group[edge[0]]) * group.count(group[edge[1]])
    return found


def rotate(pairs: Sequence[Pair], first: Sequence[Pair], turn: int) -> list[Pair]:
    """So many of the pairs as can be counted: these first, then others in turns. Public."""
    rest = [pair for pair in pairs if pair not in set(first)]
    room = max(MOST_CANDIDATES - len(first), 0)
    step = next(step for step in range(len(rest) * 5 // 8, 2 * len(rest) + 2) if math.gcd(step, len(rest)) == 1)
    return sorted([*first, *(rest[(turn * room + i) * step % len(rest)] for i in range(min(room, len(rest))))])


MECHANISM = MarginalsMechanism
