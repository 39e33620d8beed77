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

from headwater.mechanisms.marginals.bins import cut, profile
from headwater.mechanisms.marginals.bucket import EXTRA, TREE, Bucket
from headwater.mechanisms.marginals.counting import Question
from headwater.mechanisms.marginals.measured import Integers, Measured, NoisyTable
from headwater.mechanisms.marginals.pairs import CELLS, PATHS, Pair, joined, paths, some_of
from headwater.mechanisms.marginals.plan import Stage, divide
from headwater.mechanisms.marginals.prediction import FEW, Outlook, Prediction
from headwater.mechanisms.marginals.selection import distance

PAIR_BINS = 24  # of an ordered column, in a table of two
PAIR_LEAST = (0.0, 0.004, 0.004, 0.004, 0.25)  # a bin of a pair is halved if it holds so much, by level
MOST_CELLS = 1 << 14  # larger tables of two columns are never asked for
MOST_CANDIDATES = 1 << 10  # pairs that are counted in one bucket
GIVEN = 0.2  # the weight of an ordered column's own table if a pair has it too, but in coarser bins
EXTRAS = Fraction(1, 2)  # pairs beyond the tree, for each column
EXTRA_WEIGHT = Fraction(6, 5)  # the budget of such a pair beside that of one of the tree
MEMORY = 0.2  # what is added, for each record, to the score of a pair of the published tree
TREE_PENALTY, EXTRA_PENALTY = 0.25, 0.5  # the part of the expected noise that is taken off a score
FLOOR = 0.02  # a prediction is mixed with so much of an even one: nothing is impossible


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
        What they said of this stage.
    epsilon
        The budget of the whole run, as `Measured` names it.
    """

    def __init__(
        self, bucket: Bucket, stage: Stage, before: Sequence[NoisyTable], outlook: Outlook, epsilon: float
    ) -> None:
        self.bucket, self.stage, self.outlook, self.epsilon = bucket, stage, outlook, epsilon
        self.codings, self.columns, self.known = bucket.codings, len(bucket.codings), list(before)

    def measure(self) -> None:
        """Ask everything. ``known`` then has the new tables, and ``outlook`` the tree that they show."""
        if not self.stage.pairs or self.columns < 2:
            self.known += self.bucket.one_way(self.stage.slow_budget, [1.0] * self.columns, self.known)
            return
        weights = self.own_tables()
        one_way = self.stage.one_way * Fraction(sum(weights)) / self.columns
        if one_way:
            self.known += self.bucket.one_way(one_way, weights, self.known)
        self.questions = self.candidates()
        counts = self.bucket.count(list(self.questions.values()))
        self.counts = dict(zip(self.questions, counts, strict=True))
        extras = min(math.ceil(EXTRAS * self.columns), len(self.questions) - self.columns + 1)
        extras = max(extras, 0) if self.stage.extra_choice else 0
        part = extras * EXTRA_WEIGHT / (extras * EXTRA_WEIGHT + self.columns - 1)
        budget = self.stage.slow_budget - one_way - (self.stage.extra_choice if extras else 0)
        tree, spent = self.tree((budget - self.stage.tree_choice) * (1 - part))
        budget -= spent
        routes = paths(tree, self.columns)
        powers = [self.questions[p].cells ** CELLS * n**PATHS for p, n in zip(tree, routes, strict=True)]
        self.ask(tree, budget * (1 - part), powers)
        published = self.predict()
        if extras:
            further = self.further(published, set(tree), extras, budget * part)
            self.ask(further, budget * part, [self.questions[pair].cells ** CELLS for pair in further])
        self.outlook = Outlook(*published.structure(), self.outlook.moving)

    def predict(self, since: int = 0) -> Prediction:
        """What is published by now predicts of this bucket."""
        measured = Measured(self.bucket.end, since, self.epsilon, tuple(self.codings), tuple(self.known))
        return Prediction(measured, self.bucket.start)

    def own_tables(self) -> list[float]:
        """Weights of the columns in the one-way budget: less if a pair that is measured anyway has the column too."""
        weights, edges = [1.0] * self.columns, self.edges()
        for pair in self.outlook.kept:
            for column, other in (pair, pair[::-1]):
                if len(edges[other]) <= FEW:
                    weights[column] = GIVEN if self.codings[column].ordered else 0.0
        return weights

    def edges(self) -> list[Integers]:
        """The bins of each column in tables of two."""
        profiles = [profile(column, coding, self.known) for column, coding in enumerate(self.codings)]
        return [cut(*of_column, PAIR_LEAST, PAIR_BINS) for of_column in zip(self.codings, profiles, strict=True)]

    def candidates(self) -> dict[Pair, Question]:
        """The pairs that may be asked for, and their bins."""
        edges = self.edges()
        small = [(a, b) for a, b in combinations(range(self.columns), 2) if len(edges[a]) * len(edges[b]) <= MOST_CELLS]
        pairs = some_of(small, self.outlook.tree, MOST_CANDIDATES, self.stage.start.bit_length())
        return {(a, b): Question((a, b), (edges[a], edges[b])) for a, b in pairs}

    def ask(self, pairs: Sequence[Pair], budget: Fraction, weights: Sequence[float]) -> None:
        """Measure these pairs."""
        shares = divide(budget, weights)
        for pair, share in zip(pairs, shares, strict=True):
            self.known.append(self.bucket.publish(self.questions[pair], self.counts[pair], share))

    def tree(self, budget: Fraction) -> tuple[list[Pair], Fraction]:
        """The pairs of a spanning tree, and what choosing them cost.

        Pairs whose dependence is already published beyond doubt are kept; the others are chosen one by one among those
        that join two parts of the tree.
        """
        tree, groups, spent = list[Pair](), list(range(self.columns)), Fraction(0)
        for pair in sorted(self.questions.keys() & self.outlook.kept):
            tree.append(pair)
            groups = joined(groups, pair)
        if len(set(groups)) == 1:
            return tree, spent
        each = self.stage.tree_choice / (self.columns - 1)
        scores = self.scores(self.predict().independent(self.questions), budget / (self.columns - 1), TREE_PENALTY)
        bonus = round(MEMORY * self.bucket.size)
        scores = {pair: score + bonus * (pair in self.outlook.tree) for pair, score in scores.items()}
        while scores := {pair: score for pair, score in scores.items() if groups[pair[0]] != groups[pair[1]]}:
            tree.append(self.bucket.choose(scores, each, TREE, len(tree)))
            groups = joined(groups, tree[-1])
            spent += each
        return tree, spent

    def further(self, published: Prediction, done: set[Pair], extras: int, budget: Fraction) -> list[Pair]:
        """Pairs beyond the tree that the published model predicts worst, chosen one by one."""
        rest = {pair: question for pair, question in self.questions.items() if pair not in done}
        scores, chosen = self.scores(published.joint(rest), budget / extras, EXTRA_PENALTY), list[Pair]()
        for turn in range(min(extras, len(scores))):
            chosen.append(self.bucket.choose(scores, self.stage.extra_choice / extras, EXTRA, turn))
            del scores[chosen[-1]]
        return chosen

    def scores(self, predicted: dict[Pair, NDArray[np.float64]], each: Fraction, penalty: float) -> dict[Pair, int]:
        """How far each pair is from its prediction, less what sampling and noise would do.

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

    def ahead(self, following: Stage) -> Outlook:
        """What is published by now says of the next stage."""
        if not following.fast or not self.stage.pairs:
            return replace(self.outlook, moving=(1.0,) * self.columns)
        latest = self.predict(since=self.bucket.start)
        moving = latest.moving(following.size, following.fast, float(following.fast_budget))
        return replace(self.outlook, moving=moving)
