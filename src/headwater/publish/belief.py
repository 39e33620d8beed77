"""What a pool makes one believe: the share of every left half, drawn towards what was believed before it spoke.

Everything is computed for all split cells at once, whatever their depth: a tree has many depths, most of them small.
`believe` and `_trust` are the formulas.

Formal guarantees
-----------------
Post-processing: published numbers come in, so it costs no privacy, whatever it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.partition import Partition
from headwater.publish.pool import Pool
from headwater.publish.tree import Flags, Floats, Integers, Tree, even_shares, neighbours

ALL = slice(None)
PRIOR = 8.0  # against its neighbours, the whole depth's unevenness counts as this many cells
CAUTION = 2.0  # a depth's unevenness is believed as far as it exceeds so many of its standard errors
FARTHEST = 4.0  # no share is drawn away from what its pool says by more than this many deviations of the noise


@dataclass(frozen=True, eq=False)
class Belief:
    """At every split cell of a tree: the share of its left half, and how much of that share's variance is noise."""

    tree: Tree
    share: Floats
    variance: Floats


def shares(tree: Tree, beliefs: Sequence[Belief], partition: Partition) -> Floats:
    """What is believed at the split cells of any tree: the last belief that knows a cell counts, else it is even."""
    share = even_shares(tree, partition)
    for belief in beliefs:
        share = updated(share, belief, tree.places_in(belief.tree))
    return share


def updated(share: Floats, belief: Belief, places: Integers) -> Floats:
    """The same shares, but for those that a belief knows: ``places`` says where, or −1."""
    return np.where(places >= 0, belief.share.take(places), share) if len(belief.share) else share


def believe(pool: Pool, before: Floats, partition: Partition, *, settle: bool = True) -> Belief:
    """What to believe at the split cells of a pool, having believed ``before``.

    How much of its words to trust is judged by the masses that the pool gives cells by its own word alone. With
    ``settle`` the shares are then worked out for the masses that follow from them, from the root down: more exact, and
    what the proof is about (`proofs/cascade.md`), but slower.
    """
    tree = pool.tree
    if not (pool.points and len(before)):
        return Belief(tree, before, np.zeros(len(before)))
    left, right, var_left, var_right, asked = pool.values
    both, weight = left + right, var_left / (var_left + var_right)
    told, part, noise = left - both * weight, asked / pool.points, weight * var_right

    nodes = tree.split_nodes()

    def base_of(here: slice, held: Floats) -> Floats:
        """The mass, in a cell, of the buckets that were asked about it: what they say, as far as it can be true."""
        return np.maximum(np.minimum(np.maximum(both[here], held * part[here]), held), 1.0)

    def alone(here: slice, held: Floats) -> Floats:
        """Least squares for the left half when the sum of both is the base; its variance is `noise`."""
        return np.minimum(np.maximum(told[here] / base_of(here, held) + weight[here], 0.0), 1.0)  # np.clip is slow

    held = spread_out(tree, pool.points, alone)[0][nodes]
    base = base_of(ALL, held)
    heard = held > min(1e-9 * pool.points, 1.0)  # less is rounding, not points
    if not partition.plain:  # where a half can hold nothing, there is nothing to estimate
        even = even_shares(tree, partition)
        heard &= (even > 0) & (even < 1)
    trust = _trust(told + base * (weight - before), noise, base, heard, tree)
    limit = FARTHEST * np.sqrt(noise)

    def shrunk(here: slice, held: Floats) -> Floats:
        """Drawn from least squares towards what was believed, but never far: whatever the model says, it may err."""
        base = base_of(here, held)
        surprise = told[here] + base * (weight[here] - before[here])
        pull = np.minimum(np.maximum((1 - trust[here]) * surprise, -limit[here]), limit[here])
        share = (before[here] + (surprise - pull) / base).clip(0.0, 1.0)
        return np.where(heard[here], share, before[here])

    share = shrunk(ALL, held)
    if settle:
        mass, share = spread_out(tree, pool.points, shrunk)
        base = base_of(ALL, mass[nodes])
    return Belief(tree, share, np.where(heard, trust * noise / np.square(base), 0.0))


def spread_out(tree: Tree, points: int, share_of: Callable[[slice, Floats], Floats]) -> tuple[Floats, Floats]:
    """From the root down: the mass of every node, and the share that the left half of each split cell gets of its own.

    The share may depend on the mass: ``share_of`` is told which split cells, and what they hold.
    """
    mass, share = np.empty(2 * tree.size - 1), np.empty(tree.size - 1)
    mass[0] = points
    for here, nodes in tree.layers():
        held = mass.take(nodes)
        share[here] = share_of(here, held)
        lower = mass[2 * here.start + 1 : 2 * here.stop : 2] = held * share[here]
        mass[2 * here.start + 2 : 2 * here.stop + 1 : 2] = held - lower
    return mass, share


def _trust(surprise: Floats, noise: Floats, base: Floats, heard: Flags, tree: Tree) -> Floats:
    """How much of a surprise to believe, by empirical Bayes: its variance is modelled as ``s·base + noise``.

    A surprise is by how much the left half differs from what was believed; twice that is the imbalance.

    ``s`` is fitted by weighted moments over each depth, then once more among neighbours; what may be chance is not
    believed. A depth of few cells always looks uneven: it has to be so beyond `CAUTION`, neighbours beyond one error.
    """
    doubt = noise / base
    excess = np.square(surprise) / base - doubt
    layers = [here for here, _ in tree.layers()]
    starts, sizes = np.array([here.start for here in layers]), np.array([here.stop - here.start for here in layers])
    s: float | Floats = 0.25
    for _ in range(2):
        weight = heard / np.square(doubt + s)
        weights = np.maximum(np.add.reduceat(weight, starts), 1e-300)
        # The square of a normal variable of variance v has the variance 2v².
        error = np.sqrt(2 * np.add.reduceat(np.square(weight * doubt), starts))
        s = np.maximum((np.add.reduceat(weight * excess, starts) - CAUTION * error) / weights, 0.0).repeat(sizes)
    weight, group = heard / np.square(doubt + s), neighbours(tree)
    weights = np.maximum(np.bincount(group, weight), 1e-300)
    prior = PRIOR * weights / np.maximum(np.bincount(group, heard), 1)
    more = np.bincount(group, weight * (excess - s))
    error = np.sqrt(2 * np.bincount(group, np.square(weight * (doubt + s))))
    more = np.copysign(np.maximum(np.abs(more) - error, 0.0), more)
    local: Floats = np.maximum(s + (more / (weights + prior))[group], 0.0)
    return local / (local + doubt)
