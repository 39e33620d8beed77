"""Which trees are measured has a number: a run that was interrupted under another rule is refused, not replayed."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import headwater as hw
from headwater.mechanisms.cascade.measure import CascadeMechanism

PINNED = {2: "76a53164908fface"}


@pytest.mark.filterwarnings("ignore::headwater.SeededRunWarning")
def test_a_rule_that_measures_other_trees_has_another_number() -> None:
    """If this fails, the same run now has other trees: raise the version, and pin what the new rule chooses."""
    digest = hashlib.sha256()
    for d, epsilon in ((1, 1.0), (2, 0.3), (2, 5.0), (3, 1.0), (5, 2.0)):
        rng = np.random.default_rng(d)
        synth = hw.Synthesizer(hw.unit_cube(d), epsilon=epsilon, seed=7)
        synth.update(np.concatenate([rng.random((3000, d)), 0.3 + 0.01 * rng.random((9000, d))]))
        synth.release()
        mechanism = synth._mechanism
        assert isinstance(mechanism, CascadeMechanism)
        summaries = [*mechanism.history.slow, *mechanism.history.recent, *mechanism._fast.values()]
        assert any(summary.tree.size > 20 for summary in summaries)
        for tree in (part.tree for summary in summaries for part in summary.parts):
            digest.update(b"".join(np.packbits(split).tobytes() for split in tree.splits))
    assert digest.hexdigest()[:16] == PINNED[CascadeMechanism.version]
