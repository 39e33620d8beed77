"""One bucket that has closed: exact counts of its records go in, noisy tables and private choices come out.

The only code that turns records into numbers that may be seen is `Bucket.publish` and `Bucket.choose`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from headwater.laws import Accounting, Pure
from headwater.mechanisms.marginals.bins import cut_by, one_way
from headwater.mechanisms.marginals.codes import Codes
from headwater.mechanisms.marginals.counting import Question, count
from headwater.mechanisms.marginals.measured import Coding, Integers, NoisyTable
from headwater.mechanisms.marginals.pairs import Pair
from headwater.mechanisms.marginals.plan import divide, variance
from headwater.mechanisms.marginals.selection import SENSITIVITY, choose, choose_exponentially
from headwater.mechanisms.open_counts import CountedBucket
from headwater.noise import Noise

MOST_BINS = 256  # of a column, in a one-way table
ENOUGH = (0.5, 0.5, 0.5, 0.5, 24.0)  # a one-way bin is halved if it should hold so many times its noise, by level

SLOW, FAST = 0, 1
"""The timescales. An address has two bits for the kind of draw, and 46 for the draw."""
TREE, EXTRA = 2, 3
"""The kinds of choices, which only slow buckets make."""


class Bucket:
    """The records ``start … end − 1``, to be asked about.

    Parameters
    ----------
    codes
        Their codes, one row for each column.
    codings
        What the codes mean.
    noise
        Where protecting randomness is drawn. A draw has the address ``(start, kind, columns or round, cell)``.
    timescale
        `SLOW` or `FAST`.
    start, end
        The arrivals that the bucket holds.
    accounting
        What budgets are counted in.
    counted
        Records of the bucket that were counted elsewhere, besides those of ``codes``.
    """

    def __init__(
        self,
        codes: Codes,
        codings: Sequence[Coding],
        noise: Noise,
        timescale: int,
        start: int,
        end: int,
        accounting: Accounting = Pure,
        counted: Sequence[CountedBucket] = (),
    ) -> None:
        self.codes, self.codings, self.noise, self.accounting = codes, codings, noise, accounting
        self.timescale, self.start, self.end, self.counted = timescale, start, end, counted

    @property
    def size(self) -> int:
        """How many records there are. Public."""
        return self.end - self.start

    def count(self, questions: Sequence[Question]) -> list[Integers]:
        """Exact counts. Not private."""
        found = count(self.codes, questions, self.codings)
        for one in self.counted:
            further = count(np.ascontiguousarray(one.rows.T), questions, self.codings, one.counts)
            found = [table + more for table, more in zip(found, further, strict=True)]
        return found

    def one_way(
        self, budget: Fraction, weights: Sequence[float], known: Sequence[NoisyTable], *, again: bool = False
    ) -> list[NoisyTable]:
        """One-way tables of the columns with a positive weight, in bins as fine as their noise allows.

        A bucket may be asked for them twice, the second time with ``again``, which gives the noise other addresses.
        """
        questions, total, own = list[Question](), math.fsum(weights), one_way(known, len(self.codings))
        for column, (coding, weight) in enumerate(zip(self.codings, weights, strict=True)):
            if weight > 0:
                scale = self.accounting.width(float(budget) * weight, total)
                least = [enough * scale / self.size for enough in ENOUGH]
                edges = cut_by(coding, own[column], least, MOST_BINS)
                questions.append(Question((column,), (edges,)))
        shares = divide(
            budget, [weights[q.columns[0]] * math.sqrt(q.cells) ** self.accounting.power for q in questions]
        )
        asked = zip(questions, self.count(questions), shares, strict=True)
        return [self.publish(question, counts, share, again=again) for question, counts, share in asked]

    def publish(self, question: Question, counts: Integers, budget: Fraction, *, again: bool = False) -> NoisyTable:
        """Counts with noise.

        Formal guarantees
        -----------------
        Replacing a record moves two counts by one each, so noise of scale ``2/budget`` costs at most ``budget``
        (Gaussian noise of variance ``1/budget``, if the budget is in ρ). The counts of a one-way table of two cells add
        up to the public number of records: there only one draw moves. A table of one cell is the public number itself
        and costs nothing. Null records are in no cell; so that these two statements stay true, such tables have them in
        their first cell.
        """
        single = question.shape == (2,)
        if question.cells == 1 or single:
            counts = counts.copy()
            counts.flat[0] += self.size - counts.sum()
        law = self.accounting.count_law(budget, 1 if single else 2)
        lo = self.timescale << 46 | again << 45 | question.columns[0] << 34 | question.columns[-1] << 24
        noise = law.draw(self.noise, self.start, np.uint64(lo) + np.arange(question.cells, dtype=np.uint64))
        if single:
            noise[0] = -noise[1]
        noisy = counts + noise.reshape(counts.shape)
        gaussian = self.accounting.gaussian
        how = law.scale, variance(law.scale, gaussian=gaussian), gaussian
        return NoisyTable(question.columns, self.start, self.end, question.edges, noisy, *how)

    def choose(self, scores: Mapping[Pair | None, int], budget: Fraction, kind: int, turn: int) -> Pair | None:
        """The candidate that a private choice takes. Replacing a record may move a score by at most `SENSITIVITY`."""
        pairs = list(scores)
        how = choose_exponentially if self.accounting.gaussian else choose
        law = self.accounting.choice_law(budget, 2 * SENSITIVITY)
        found = how(list(scores.values()), law.scale, self.noise, self.start, kind << 46 | turn << 24)
        return pairs[found]
