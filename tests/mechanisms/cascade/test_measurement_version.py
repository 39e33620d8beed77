"""Which trees are measured has a number: a run that was interrupted under another rule is refused, not replayed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import numpy as np

import headwater as hw
from headwater.public.cascade.history import Measured
from headwater.public.cascade.tree import Tree
from headwater.secret.cascade import CascadeMechanism

SETTINGS = ((1, 1.0), (2, 0.3), (2, 5.0), (3, 1.0), (5, 2.0))
"""Dimension and ε. Streams spread at first, then lie in a corner, so that trees change."""


def described(tree: Tree) -> str:
    """How many cells are split at each depth; and a checksum, since other cells may be as many."""
    which = zlib.crc32(b"".join(np.packbits(split).tobytes() for split in tree.splits))
    return f"{which:08x} {' '.join(str(int(split.sum())) for split in tree.splits[:-1]) or 'none'}"


def measured_trees() -> Iterator[str]:
    """A line for each tree, with the span and the number of the buckets that it was measured in, one after another."""
    for d, epsilon in SETTINGS:
        rng = np.random.default_rng(d)
        synth = hw.Synthesizer(hw.unit_cube(d), epsilon=epsilon, seed=7)
        synth.update(np.concatenate([rng.random((3000, d)), 0.3 + 0.01 * rng.random((9000, d))]))
        measured = synth.measured()
        assert isinstance(measured, Measured)
        yield f"# {d} columns, ε = {epsilon:g}"
        buckets = (*measured.history.slow, *measured.history.recent, *measured.fast)
        for trees, alike in groupby(buckets, lambda bucket: [described(part.tree) for part in bucket.parts]):
            first, *more = alike
            span = f"{first.start}-{more[-1].end if more else first.end}, {1 + len(more)} buckets"
            yield from (f"{span}: {tree}" for tree in trees)


def test_a_rule_that_measures_other_trees_has_another_number() -> None:
    """If this fails, the same run now has other trees: raise the version, and write what the new rule chooses.

    The first line that differs says in which bucket, and at which depth, the rules part.
    """
    page = Path(__file__).with_name(f"trees-{CascadeMechanism.version}.txt")
    assert list(measured_trees()) == page.read_text(encoding="utf-8").splitlines()
