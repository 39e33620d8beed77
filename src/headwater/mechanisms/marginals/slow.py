"""What is asked of a slow bucket, in order: one-way marginals, the pairs of a tree, and pairs beyond the tree.

Each question is decided by what was published before it, and by private choices whose budget is in the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.marginals.bucket import EXTRA, TREE, Bucket
from headwater.mechanisms.marginals.measured import Integers, Measured, NoisyTable
from headwater.mechanisms.marginals.pair_rules import EXTRA_WEIGHT, EXTRAS, pair_edges, saving, turns
from headwater.mechanisms.marginals.pairs import CELLS, PATHS, Pair, joined, paths, some_of
from headwater.mechanisms.marginals.plan import Stage, divide
from headwater.mechanisms.marginals.prediction import UNITS, Outlook, Prediction
from headwater.mechanisms.marginals.questions import Question, early_weights
from headwater.mechanisms.marginals.selection import distance

MOST_CELLS = 1 << 14  # larger tables of two columns are never asked for
MOST_CANDIDATES = 1 << 10  # pairs that are counted in one bucket
FEW = 20  # a column has no table of its own if a kept pair has it, with at most so many bins of the other column
THRESHOLD = 0.05  # see `SlowBucket.threshold`
MARGINS = 0.5  # the part of the error by unsure one-way marginals that is taken off a score
MEMORY = 0.2  # what is added, for each record, to the score of a pair of the published tree
TREE_PENALTY, EXTRA_PENALTY = 0.25, 0.5  # the part of the expected noise that is taken off a score
FLOOR = 0.02  # a prediction is mixed with so much of an even one: nothing is impossible


Scores = dict[Pair | None, int]


class SlowBucket:
    """The measurements of one slow bucket.

    Parameters
    ----------
    bucket
        The records.
    stage
        What may be spent.
    before
        All tables that were published before.
    outlook
        What follows from them for this stage.
    epsilon
        The budget of the whole run, as `Measured` names it.
    """

    def __init__(
        self, bucket: Bucket, stage: Stage, before: Sequence[NoisyTable], outlook: Outlook, epsilon: float
    ) -> None:
        self.bucket, self.stage, self.outlook, self.epsilon = bucket, stage, outlook, epsilon
        self.codings, self.columns, self.known = bucket.codings, len(bucket.codings), list(before)
        self.first: Prediction | None = None  # by which the tree was chosen
        self.published: Prediction | None = None  # once it is
        self.done = set[Pair]()  # the pairs that were asked for since the doubling began

    def measure(self) -> None:
        """Publish one-way marginals, then pairs of a tree, then further pairs, and one-way marginals with what is left.

        A half of a doubling leaves out what the other half asks for. ``known`` then has the new tables, and ``outlook``
        the tree that follows from them.
        """
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
        """How many pairs of a tree, and how many further ones, the stage may ask for at most."""
        if not self.stage.pairs or self.columns < 2:
            return 0, 0
        most = self.columns - 1 if self.stage.tree_choice else 0
        others = math.comb(self.columns, 2) - max(most, len(self.done))
        return most, min(math.ceil(EXTRAS * self.columns), others) if self.stage.extra_choice else 0

    def expected(self, most: int) -> int:
        """How many pairs to plan for: two more than twice as many as in the doubling before, at most ``most``.

        In the first bucket with pairs, two more than there are choices: with many columns far fewer than a tree has.
        What is not spent on pairs can only buy one-way tables a second time, and two tables with half a budget each are
        as accurate as one with 0.7 of it. So one-way tables get beforehand what pairs will not need.
        """
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
        """The prediction of this bucket from everything that is published by now."""
        measured = Measured(self.bucket.end, 0, self.epsilon, tuple(self.codings), tuple(self.known))
        return Prediction(measured, self.bucket.start, before)

    def own_tables(self) -> list[float]:
        """The weight of each column in the one-way budget: 1, or 0 if a kept pair has it with at most `FEW` other bins.

        A one-way table is the sum of that pair's table over the bins of the other column, so their noise adds up.
        """
        weights, edges = [1.0] * self.columns, self.edges() if self.outlook.kept else []
        for pair in self.outlook.kept:
            for column, other in (pair, pair[::-1]):
                if len(edges[other]) <= FEW:
                    weights[column] = 0.0
        return weights

    def edges(self) -> list[Integers]:
        """The bins of each column in tables of two."""
        return pair_edges(self.codings, self.known)

    def candidates(self) -> dict[Pair, Question]:
        """The pairs that may be measured, and their bins: of at most `MOST_CELLS` cells, `MOST_CANDIDATES` pairs."""
        edges = self.edges()
        small = [(a, b) for a, b in combinations(range(self.columns), 2) if len(edges[a]) * len(edges[b]) <= MOST_CELLS]
        pairs = some_of(small, self.outlook.tree, MOST_CANDIDATES, self.stage.start.bit_length())
        return {(a, b): Question((a, b), (edges[a], edges[b])) for a, b in pairs}

    def ask(self, pairs: Sequence[Pair], budget: Fraction, weights: Sequence[float]) -> None:
        """Measure these pairs, with a budget that is divided in proportion to powers of ``weights``."""
        shares = divide(budget, [weight**self.stage.accounting.power for weight in weights])
        asked = [self.questions[pair] for pair in pairs], [self.counts[pair] for pair in pairs]
        self.known += self.bucket.publish_all(*asked, shares)

    def choose_tree(self, budget: Fraction, kept: Fraction) -> Fraction:
        """Choose and measure the pairs of a tree, as many as reach the threshold, and return what all of that cost.

        The budget is the ``kept`` part of what was planned for a whole tree. Pairs whose dependence is published beyond
        doubt are kept. Others are chosen one by one, among those that join two parts of the tree and the answer that
        none reaches the threshold.
        """
        most, tree, groups, spent = self.columns - 1, list[Pair](), list(range(self.columns)), Fraction(0)
        for pair in sorted(self.questions.keys() & self.outlook.kept):
            tree.append(pair)
            groups = joined(groups, pair)
        turns = min(most - len(tree), self.turns(self.stage.tree_choice))
        if turns:
            published = self.first = self.predict()
            each = self.stage.tree_choice / min(most, self.turns(self.stage.tree_choice))
            threshold = self.threshold(published, budget / most)
            scores: Scores = self.scores(published, published.independent(self.questions), budget / most, TREE_PENALTY)
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
        routes = paths(tree, self.columns)
        self.ask(tree, budget, [self.questions[p].cells ** CELLS * n**PATHS for p, n in zip(tree, routes, strict=True)])
        self.done |= set(tree)
        return spent + budget

    def choose_further(self, published: Prediction, most: int, budget: Fraction, kept: Fraction) -> Fraction:
        """Choose and measure at most ``most`` pairs that the published model predicts worst; returns what that cost.

        Each choice is private, and "no further pair" (`threshold`) is one of its candidates.
        """
        rest = {pair: question for pair, question in self.questions.items() if pair not in self.done}
        scores: Scores = self.scores(published, published.joint(rest), budget / most, EXTRA_PENALTY)
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
        """How many choices a budget allows, if each is to distinguish scores that differ by `CLEAR` for each record."""
        return turns(budget, self.bucket.size, len(self.questions), self.stage.accounting)

    def scores(
        self, published: Prediction, predicted: dict[Pair, NDArray[np.float64]], each: Fraction, penalty: float
    ) -> dict[Pair | None, int]:
        """``distance(counts, predicted) − (sampling + penalty·noise + MARGINS·margins)`` of each pair, in records.

        What is subtracted is the L1 distance to expect of a pair that is as predicted: from sampling, from the noise
        that its table would get with the budget ``each``, and from errors of the one-way marginals. It is public; only
        `distance` reads records.
        """
        found, size, errors = dict[Pair | None, int](), self.bucket.size, published.errors()
        for pair, shares in predicted.items():
            expected = size * ((1 - FLOOR) * shares + FLOOR / shares.size)
            sampling = np.minimum(2 * expected, np.sqrt(2 / math.pi * expected)).sum()
            noise = np.minimum(self.stage.accounting.width(float(each)) / 2, expected).sum()
            margins = 2 * size * math.hypot(errors[pair[0]], errors[pair[1]])
            whole = np.rint(expected).astype(np.int64)
            public = sampling + penalty * noise + MARGINS * margins
            found[pair] = distance(self.counts[pair], whole) - round(float(public))
        return found

    def threshold(self, published: Prediction, each: Fraction) -> int:
        """The score of "no further pair": ``THRESHOLD · 2·size·(columns − 1)·Σ errors · each/one_way``, in records.

        So much the L1 distance over all pairs would fall, up to the factor `THRESHOLD`, if the budget ``each`` went to
        one-way marginals instead: every column is in ``columns − 1`` pairs, and errors fall with the part that is added
        (half of that with Gaussian noise). The factor allows for what that leaves out: about half of the records behind
        one-way marginals are older than the bucket, and a pair also helps all pairs that are joined through it. The
        budget ``one_way`` is that of the other half of a doubling, if they are asked for there.
        """
        wrong = 2 * self.bucket.size * (self.columns - 1) * math.fsum(published.errors())
        part = float(each / (self.stage.one_way + self.stage.other_half))
        return round(THRESHOLD * wrong * part / (2 if self.stage.accounting.gaussian else 1))  # errors fall with √ρ

    def ahead(self, following: Stage) -> Outlook:
        """The outlook with the weights of columns in fast buckets of the next stage, from what is published by now."""
        if not following.fast or self.published is None:
            return replace(self.outlook, moving=(1.0,) * self.columns)
        budget, units = float(following.fast_budget), np.arange(UNITS + 1)
        known = (following.fast * budget * units / UNITS) ** 2 / 8
        if following.accounting.gaussian:
            known = following.fast**2 * budget * units / UNITS
        return replace(self.outlook, moving=self.published.moving(following.size, known))
