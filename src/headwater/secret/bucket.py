"""What is asked of a slow bucket, in order: one-way marginals, the pairs of a tree, and pairs beyond the tree.

Each question is decided by what was published before it, and by private choices whose budget is in the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.laws import Accounting, Pure, scale_for
from headwater.public.marginals.codes import Codes, Coding
from headwater.public.marginals.measured import Measured, NoisyTable, Outlook
from headwater.public.marginals.plan import Stage, divide
from headwater.public.marginals.predict import UNITS, Prediction
from headwater.public.marginals.questions import (
    CELLS,
    EXTRA_WEIGHT,
    EXTRAS,
    LEAST,
    Question,
    early_weights,
    joined,
    joint_sizes,
    joint_variances,
    one_way_questions,
    own_law,
    pair_edges,
    saving,
    shared,
    some_of,
    turns,
)
from headwater.public.marginals.tables import bin_of
from headwater.public.marginals.tree import Pair
from headwater.public.partition import Integers
from headwater.public.protocol import Rows
from headwater.secret.choices import SENSITIVITY, choose, choose_exponentially, distance
from headwater.secret.noise import Noise

Axis = tuple[int, int]
"""A column, and which of its bins."""

_CHUNK = 1 << 14  # records at a time: their bins stay in the processor's cache


def count(
    codes: Codes,
    questions: Sequence[Question],
    codings: Sequence[Coding],
    weights: NDArray[np.unsignedinteger[Any]] | None = None,
) -> list[Integers]:
    """For each question its table of counts: every record is in exactly one cell of each."""
    axes = [tuple((c, id(e)) for c, e in zip(q.columns, q.edges, strict=True)) for q in questions]
    edges = {axis: e for q, of_q in zip(questions, axes, strict=True) for axis, e in zip(of_q, q.edges, strict=True)}
    sizes = {axis: len(e) for axis, e in edges.items()}
    joint = cover(axes, sizes, min(_CHUNK, codes.shape[1] // 8))
    totals = [np.zeros(prod(sizes[axis] for axis in group), dtype=np.int64) for group, _ in joint]
    kind = np.uint16 if max(map(len, totals), default=0) <= 1 << 16 else np.int64
    lookup = {axis: bin_of(e, codings[axis[0]].size).astype(kind, copy=False) for axis, e in edges.items()}
    for start in range(0, codes.shape[1], _CHUNK):
        part = codes[:, start : start + _CHUNK]
        bins = {axis: table.take(part[axis[0]]) for axis, table in lookup.items()}
        of_part = None if weights is None else weights[start : start + _CHUNK]
        for (group, _), total in zip(joint, totals, strict=True):
            cells = bins[group[0]]
            for axis in group[1:]:
                cells = cells * sizes[axis] + bins[axis]
            total += np.bincount(cells, of_part, minlength=len(total)).astype(np.int64, copy=False)
    found: dict[tuple[Axis, ...], Integers] = {}
    for (group, answered), total in zip(joint, totals, strict=True):
        table = total.reshape([sizes[axis] for axis in group])
        for of_q in answered:
            found[of_q] = table.sum(tuple(at for at, axis in enumerate(group) if axis not in of_q))
    return [found[of_q] for of_q in axes]


def cover(
    questions: Iterable[tuple[Axis, ...]], sizes: Mapping[Axis, int], most: int
) -> list[tuple[tuple[Axis, ...], list[tuple[Axis, ...]]]]:
    """The tables to count, and which questions the sums of each answer: pairs of a few axes are counted together."""
    left: dict[Axis, set[Axis]] = {axis: set() for axis in sizes}  # with which others it is still asked for
    found, pairs = list[tuple[tuple[Axis, ...], list[tuple[Axis, ...]]]](), list[tuple[Axis, ...]]()
    for question in dict.fromkeys(questions):
        if len(question) == 2:
            pairs.append(question)
            left[question[0]].add(question[1])
            left[question[1]].add(question[0])
        else:
            found.append((question, [question]))
    for first, second in pairs:
        if second not in left[first]:
            continue
        group, cells = [first, second], sizes[first] * sizes[second]
        fits = [axis for axis in left if sizes[axis] * cells <= most]
        while more := {a: len(left[a].intersection(group)) for a in fits if a not in group}:
            best = max(more, key=more.__getitem__)
            if not more[best]:
                break
            group.append(best)
            cells *= sizes[best]
            fits = [axis for axis in fits if sizes[axis] * cells <= most]
        answered = [pair for pair in combinations(sorted(group), 2) if pair[1] in left[pair[0]]]
        for a, b in answered:
            left[a].remove(b)
            left[b].remove(a)
        found.append((tuple(sorted(group)), list[tuple[Axis, ...]](answered)))
    return found


SLOW, FAST = 0, 1
"""The timescales. An address has two bits for the kind of draw, and 46 for the draw."""
TREE, EXTRA = 2, 3
"""The kinds of choices, which only slow buckets make."""


class Bucket:
    """The records ``start … end − 1``, to be asked about."""

    def __init__(
        self,
        codes: Codes,
        codings: Sequence[Coding],
        noise: Noise,
        timescale: int,
        start: int,
        end: int,
        accounting: Accounting = Pure,
        counted: Sequence[tuple[Rows, NDArray[Any]]] = (),
    ) -> None:
        self.codes, self.codings, self.noise, self.accounting = codes, codings, noise, accounting
        self.timescale, self.start, self.end, self.counted = timescale, start, end, counted
        self.joint = 0  # joint draws so far

    @property
    def size(self) -> int:
        return self.end - self.start

    def count(self, questions: Sequence[Question]) -> list[Integers]:
        found = count(self.codes, questions, self.codings)
        for rows, counts in self.counted:
            further = count(np.ascontiguousarray(rows.T), questions, self.codings, counts)
            found = [table + more for table, more in zip(found, further, strict=True)]
        return found

    def one_way(
        self, budget: Fraction, weights: Sequence[float], known: Sequence[NoisyTable], *, again: bool = False
    ) -> list[NoisyTable]:
        asked = one_way_questions(self.codings, self.size, self.accounting, budget, weights, known)
        return self.publish_all(asked[0], self.count(asked[0]), asked[1], again=again)

    def publish_all(
        self,
        questions: Sequence[Question],
        counts: Sequence[Integers],
        budgets: Sequence[Fraction],
        *,
        again: bool = False,
    ) -> list[NoisyTable]:
        """Tables with noise, each for its budget; small ones that are alike share a draw for all they have."""
        found = dict[int, NoisyTable]()
        for alike, budget in shared(questions, budgets, self.accounting) if self.timescale == SLOW else ():
            some = [questions[i] for i in alike], [counts[i] for i in alike]
            found |= zip(alike, self.publish_jointly(*some, budget, again=again), strict=True)
        for i, question in enumerate(questions):
            if i not in found:
                found[i] = self.publish(question, counts[i], budgets[i], again=again)
        return [found[i] for i in range(len(questions))]

    def publish(self, question: Question, counts: Integers, budget: Fraction, *, again: bool = False) -> NoisyTable:
        law = own_law(question, budget, self.accounting)
        addresses = np.uint64(self.address(question, again)) + np.arange(question.numbers, dtype=np.uint64)
        noisy = self.numbers_of(question, counts) + law.draw(self.noise, self.start, addresses)
        return self._table(question, noisy, law.scale, max(law.variance, LEAST), gaussian=self.accounting.gaussian)

    def publish_jointly(
        self, questions: Sequence[Question], counts: Sequence[Integers], budget: Fraction, *, again: bool = False
    ) -> list[NoisyTable]:
        """Counts of several tables with joint noise."""
        scale, sizes, found = scale_for(budget), joint_sizes(questions), list[NoisyTable]()
        true = np.concatenate([self.numbers_of(*one) for one in zip(questions, counts, strict=True)])
        addresses = [self.address(q, again) + part for q in questions for part in range(len(q.sizes))]
        noisy = true + self.noise.jointly_at(scale, sizes, self.start, addresses)
        self.joint += 1
        for question, noise in zip(questions, joint_variances(questions, scale), strict=True):
            numbers, noisy = noisy[: question.numbers], noisy[question.numbers :]
            found.append(self._table(question, numbers, scale, noise, joint=self.joint))
        return found

    def numbers_of(self, question: Question, counts: Integers) -> Integers:
        if question.shape == (2,):
            return np.array([counts[1], counts.sum()])[: question.numbers]
        return np.array([self.size]) if question.cells == 1 else counts.ravel()

    def _table(
        self,
        question: Question,
        numbers: Integers,
        scale: float,
        variance: float,
        *,
        gaussian: bool = False,
        joint: int = 0,
    ) -> NoisyTable:
        present = int(numbers[1]) if question.present else None
        if question.shape == (2,):
            numbers = np.array([self.size - numbers[0], numbers[0]])
        counts = np.asarray(numbers).reshape(question.shape)
        place = question.columns, self.start, self.end, question.edges
        return NoisyTable(*place, counts, scale, variance, gaussian, joint, present)

    def address(self, question: Question, again: bool) -> int:
        return self.timescale << 46 | again << 45 | question.columns[0] << 34 | question.columns[-1] << 24

    def choose(self, scores: Mapping[Pair | None, int], budget: Fraction, kind: int, turn: int) -> Pair | None:
        pairs = list(scores)
        how = choose_exponentially if self.accounting.gaussian else choose
        law = self.accounting.choice_law(budget, 2 * SENSITIVITY)
        found = how(list(scores.values()), law.scale, self.noise, self.start, kind << 46 | turn << 24)
        return pairs[found]


MOST_CELLS = 1 << 14  # larger tables of two columns are never asked for
MOST_CANDIDATES = 1 << 10  # pairs that are counted in one bucket
THRESHOLD = 0.05  # see `SlowBucket.threshold`
MEMORY = 0.2  # what is added, for each record, to the score of a pair of the published tree
PENALTY = 0.25  # the part of the expected noise that is taken off a score
FLOOR = 0.02  # a prediction is mixed with so much of an even one: nothing is impossible


Scores = dict[Pair | None, int]


class SlowBucket:
    """The measurements of one slow bucket."""

    def __init__(
        self, bucket: Bucket, stage: Stage, before: Sequence[NoisyTable], outlook: Outlook, epsilon: float
    ) -> None:
        self.bucket, self.stage, self.outlook, self.epsilon = bucket, stage, outlook, epsilon
        self.codings, self.columns, self.known = bucket.codings, len(bucket.codings), list(before)
        self.first: Prediction | None = None  # by which the tree was chosen
        self.published: Prediction | None = None  # once it is
        self.done = set[Pair]()  # the pairs that were asked for since the doubling began

    def measure(self) -> None:
        """Publish one-way marginals, then pairs of a tree, then further pairs."""
        self.done = {t.columns for t in self.known if len(t.columns) == 2 and t.start >= self.stage.opened}
        most, extras = self.wanted()
        if not most + extras:
            budget = self.stage.slow_budget
            weights = early_weights(self.codings, self.bucket.size, self.stage.accounting, budget)
            self.known += self.bucket.one_way(budget, weights, self.known)
            return
        weights = self.own_tables()
        kept = saving(self.expected(most + extras), most + extras) if any(weights) else Fraction(1)
        own = Fraction(math.fsum(weights)) / self.columns
        one_way = self.stage.one_way * own + self.stage.pairs * (1 - kept)
        if one_way:
            self.known += self.bucket.one_way(one_way, weights, self.known)
        self.questions = self.candidates()
        counts = self.bucket.count(list(self.questions.values()))
        self.counts = dict(zip(self.questions, counts, strict=True))
        extras = min(extras, len(self.questions) - max(most, len(self.done)), self.turns(self.stage.extra_choice))
        further = max(extras, 0) * EXTRA_WEIGHT
        part = further / (further + most) if further else further
        left = self.stage.slow_budget - one_way
        pairs = self.stage.pairs * kept + self.stage.one_way * (1 - own)
        if most:
            left -= self.choose_tree(pairs * (1 - part), kept)
        self.published = self.predict(self.first)
        self.outlook = Outlook(*self.published.structure(), self.outlook.moving)
        if further:
            left -= self.choose_further(self.published, extras, pairs * part, kept)
        if left > self.stage.slow_budget / 50:
            self.known += self.bucket.one_way(left, [1.0] * self.columns, self.known, again=bool(one_way))

    def wanted(self) -> tuple[int, int]:
        if not self.stage.pairs or self.columns < 2:
            return 0, 0
        most = self.columns - 1 if self.stage.tree_choice else 0
        others = math.comb(self.columns, 2) - max(most, len(self.done))
        return most, min(math.ceil(EXTRAS * self.columns), others) if self.stage.extra_choice else 0

    def expected(self, most: int) -> int:
        """How many pairs to plan for: two more than twice as many as in the doubling before, at most ``most``."""
        stage = self.stage
        ends = [table.end for table in self.known if len(table.columns) > 1]
        if not ends and stage.tree_choice:
            candidates = min(math.comb(self.columns, 2), MOST_CANDIDATES)
            return min(turns(stage.tree_choice, stage.size, candidates, stage.accounting) + 2, most)
        before = sum(stage.opened < 2 * end - 1 and end <= stage.opened for end in ends)
        if not stage.tree_choice:
            before = max(before - self.columns + 1, 0)  # those of a tree come first
        return min(2 * before + 2, most)

    def predict(self, before: Prediction | None = None) -> Prediction:
        measured = Measured(self.bucket.end, 0, self.epsilon, tuple(self.codings), tuple(self.known))
        return Prediction(measured, self.bucket.start, before)

    def own_tables(self) -> list[float]:
        """The weight of each column in the one-way budget: 0 if a kept pair has a bin for each of its codes."""
        weights = [1.0] * self.columns
        edges = pair_edges(self.codings, self.known) if self.outlook.kept else []
        for column in (column for pair in self.outlook.kept for column in pair):
            if len(edges[column]) == self.codings[column].size:
                weights[column] = 0.0
        return weights

    def candidates(self) -> dict[Pair, Question]:
        edges = pair_edges(self.codings, self.known)
        small = [(a, b) for a, b in combinations(range(self.columns), 2) if len(edges[a]) * len(edges[b]) <= MOST_CELLS]
        pairs = some_of(small, self.outlook.tree, MOST_CANDIDATES, self.stage.start.bit_length())
        return {(a, b): Question((a, b), (edges[a], edges[b])) for a, b in pairs}

    def ask(self, pairs: Sequence[Pair], budget: Fraction, weights: Sequence[float]) -> None:
        shares = divide(budget, [weight**self.stage.accounting.power for weight in weights])
        asked = [self.questions[pair] for pair in pairs], [self.counts[pair] for pair in pairs]
        self.known += self.bucket.publish_all(*asked, shares)

    def choose_tree(self, budget: Fraction, kept: Fraction) -> Fraction:
        """Choose and measure the pairs of a tree, as many as reach the threshold, and return what all of that cost."""
        most, tree, groups, spent = self.columns - 1, list[Pair](), list(range(self.columns)), Fraction(0)
        for pair in sorted(self.questions.keys() & self.outlook.kept):
            tree.append(pair)
            groups = joined(groups, pair)
        turns = min(most - len(tree), self.turns(self.stage.tree_choice))
        if turns:
            published = self.first = self.predict()
            each = self.stage.tree_choice / min(most, self.turns(self.stage.tree_choice))
            threshold = self.threshold(published, budget / most)
            scores: Scores = self.scores(published.independent(self.questions), budget / most)
            for pair in self.questions.keys() & self.outlook.tree:
                scores[pair] += round(MEMORY * self.bucket.size)
            for turn in range(turns):
                open_ = {pair: s for pair, s in scores.items() if pair and groups[pair[0]] != groups[pair[1]]}
                chosen = self.bucket.choose(open_ | {None: threshold}, each, TREE, turn)
                spent += each
                if chosen is None:
                    break
                tree.append(chosen)
                groups = joined(groups, chosen)
        budget = budget * min(saving(len(tree), most) / kept, Fraction(1))
        self.ask(tree, budget, [self.questions[pair].cells ** CELLS for pair in tree])
        self.done |= set(tree)
        return spent + budget

    def choose_further(self, published: Prediction, most: int, budget: Fraction, kept: Fraction) -> Fraction:
        """Choose and measure at most ``most`` pairs that the published model predicts worst; returns what that cost."""
        rest = {pair: question for pair, question in self.questions.items() if pair not in self.done}
        scores: Scores = self.scores(published.joint(rest), budget / most)
        scores[None], each = self.threshold(published, budget / most), self.stage.extra_choice / most
        chosen, spent = list[Pair](), Fraction(0)
        for turn in range(most):
            pair = self.bucket.choose(scores, each, EXTRA, turn)
            spent += each
            if pair is None:
                break
            chosen.append(pair)
            del scores[pair]
        budget = budget * min(saving(len(chosen), most) / kept, Fraction(1))
        self.ask(chosen, budget, [self.questions[pair].cells ** CELLS for pair in chosen])
        return spent + budget

    def turns(self, budget: Fraction) -> int:
        return turns(budget, self.bucket.size, len(self.questions), self.stage.accounting)

    def scores(self, predicted: dict[Pair, NDArray[np.float64]], each: Fraction) -> dict[Pair | None, int]:
        """``distance(counts, predicted) − (sampling + PENALTY·noise)`` of each pair, in records."""
        found, size = dict[Pair | None, int](), self.bucket.size
        for pair, shares in predicted.items():
            expected = size * ((1 - FLOOR) * shares + FLOOR / shares.size)
            sampling = np.minimum(2 * expected, np.sqrt(2 / math.pi * expected)).sum()
            noise = np.minimum(self.stage.accounting.width(float(each)) / 2, expected).sum()
            whole = np.rint(expected).astype(np.int64)
            found[pair] = distance(self.counts[pair], whole) - round(float(sampling + PENALTY * noise))
        return found

    def threshold(self, published: Prediction, each: Fraction) -> int:
        wrong = 2 * self.bucket.size * (self.columns - 1) * math.fsum(published.errors())
        part = float(each / (self.stage.one_way + self.stage.other_half))
        return round(THRESHOLD * wrong * part / (2 if self.stage.accounting.gaussian else 1))  # errors fall with √ρ

    def ahead(self, following: Stage) -> Outlook:
        if not following.fast or self.published is None:
            return replace(self.outlook, moving=(1.0,) * self.columns)
        budget, units = float(following.fast_budget), np.arange(UNITS + 1)
        known = (following.fast * budget * units / UNITS) ** 2 / 8
        if following.accounting.gaussian:
            known = following.fast**2 * budget * units / UNITS
        return replace(self.outlook, moving=self.published.moving(following.size, known))
