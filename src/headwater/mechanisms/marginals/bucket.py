"""One bucket that has closed: exact counts of its records go in, noisy tables and private choices come out.

The only code that turns records into numbers that may be seen is `Bucket.publish`, `Bucket.publish_jointly` and
`Bucket.choose`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from headwater.laws import Accounting, Pure, scale_for
from headwater.mechanisms.marginals.codes import Codes
from headwater.mechanisms.marginals.counting import count
from headwater.mechanisms.marginals.measured import Coding, Integers, NoisyTable
from headwater.mechanisms.marginals.pairs import Pair
from headwater.mechanisms.marginals.plan import variance
from headwater.mechanisms.marginals.questions import Question, one_way_questions
from headwater.mechanisms.marginals.selection import SENSITIVITY, choose, choose_exponentially
from headwater.mechanisms.marginals.table_noise import joint_sizes, joint_variances, own_law, shared
from headwater.mechanisms.open_counts import CountedBucket
from headwater.noise import Noise

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
        self.joint = 0  # joint draws so far

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
        """Counts with noise of their own.

        Formal guarantees
        -----------------
        Replacing a record moves two counts by one each, so noise of scale ``2/budget`` costs at most ``budget``
        (Gaussian noise of variance ``1/budget``, if the budget is in ρ). Of a table with one number (`numbers_of`) only
        that one moves. Of one that counts the records that are not null as well, both numbers do. A table of one cell
        is the public number of records itself and costs nothing.
        """
        law = own_law(question, budget, self.accounting)
        addresses = np.uint64(self.address(question, again)) + np.arange(question.numbers, dtype=np.uint64)
        noisy = self.numbers_of(question, counts) + law.draw(self.noise, self.start, addresses)
        gaussian = self.accounting.gaussian
        return self._table(question, noisy, law.scale, variance(law.scale, gaussian=gaussian), gaussian=gaussian)

    def publish_jointly(
        self, questions: Sequence[Question], counts: Sequence[Integers], budget: Fraction, *, again: bool = False
    ) -> list[NoisyTable]:
        """Counts of several tables with joint noise.

        Formal guarantees
        -----------------
        Replacing a record moves at most two numbers of each table by one, or the number of a table that has one: so the
        norm of the noise moves by at most one, and noise of scale ``1/budget`` costs at most ``budget``, for all of
        them together (`proofs/joint.md`).
        """
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
        """The exact counts that need noise.

        Two counts of one column add up to the public number of records, and a single one is that number. Null records
        are in no cell; so that these two statements stay true, such tables have them in their first cell.
        """
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
        """The table that these noisy numbers are of."""
        present = int(numbers[1]) if question.present else None
        if question.shape == (2,):
            numbers = np.array([self.size - numbers[0], numbers[0]])
        counts = np.asarray(numbers).reshape(question.shape)
        place = question.columns, self.start, self.end, question.edges
        return NoisyTable(*place, counts, scale, variance, gaussian, joint, present)

    def address(self, question: Question, again: bool) -> int:
        """Of the first cell."""
        return self.timescale << 46 | again << 45 | question.columns[0] << 34 | question.columns[-1] << 24

    def choose(self, scores: Mapping[Pair | None, int], budget: Fraction, kind: int, turn: int) -> Pair | None:
        """The candidate that a private choice takes. Replacing a record may move a score by at most `SENSITIVITY`."""
        pairs = list(scores)
        how = choose_exponentially if self.accounting.gaussian else choose
        law = self.accounting.choice_law(budget, 2 * SENSITIVITY)
        found = how(list(scores.values()), law.scale, self.noise, self.start, kind << 46 | turn << 24)
        return pairs[found]
