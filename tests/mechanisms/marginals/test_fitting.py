"""Projection against other tables with the same margins."""

from __future__ import annotations

import numpy as np

from headwater.public.marginals.smooth import fit_margins, project


def test_projection_is_nearer_than_any_other_table_with_the_margins() -> None:
    """The projection minimises the distance: no feasible table found by mixing in random feasible ones is nearer."""
    rng = np.random.default_rng(3)
    rows, columns = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(5))
    noisy = np.outer(rows, columns) + rng.normal(0, 0.05, (4, 5))
    found = project(noisy, rows, columns, passes=5000, tolerance=1e-12)
    assert found.min() >= 0
    assert np.allclose(found.sum(1), rows, atol=1e-5)
    assert np.allclose(found.sum(0), columns, atol=1e-5)
    distance = ((found - noisy) ** 2).sum()
    for _ in range(300):
        other = fit_margins(rng.random((4, 5)) ** 4, rows, columns, passes=500, tolerance=1e-12)
        for step in (1.0, 0.1, 0.001):
            assert ((found + step * (other - found) - noisy) ** 2).sum() >= distance - 1e-7
