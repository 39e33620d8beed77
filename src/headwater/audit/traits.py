"""What only an auditor asks of mechanisms: how to attack them, and what they never do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Traits:
    """What an auditor must know of a mechanism.

    Parameters
    ----------
    deltas
        Whether it takes budgets with a δ: then all checks run with one as well.
    partitions
        Whether each measurement counts every record of its bucket exactly once: then totals are compared, and new draws
        tell when something new is measured.
    divides
        Whether it divides what its ledger lists among tables, and so draws more noise than is listed, never less.
    thresholds
        Whether noisy counts are compared with thresholds: then chosen outputs stay out of their reach.

    Examples
    --------
    >>> Traits(partitions=True).deltas
    False
    """

    deltas: bool = False
    partitions: bool = False
    divides: bool = False
    thresholds: bool = False


TRAITS = {
    "cascade": Traits(deltas=True, partitions=True),
    "marginals": Traits(deltas=True, partitions=True, divides=True),
    "paper": Traits(thresholds=True),
}
"""By mechanism. `check_mechanism` adds those of other mechanisms; they are given to it."""


def traits_of(mechanism: str) -> Traits:
    return TRAITS.get(mechanism, Traits())
