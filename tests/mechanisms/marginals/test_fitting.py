"""Proportional fitting and projection against literal versions."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.public.marginals.smooth import fit_margins, project


def _literal(table: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    found = table.copy()
    for _ in range(2000):
        for i in range(len(rows)):
            found[i] *= rows[i] / found[i].sum()
        for j in range(len(columns)):
            found[:, j] *= columns[j] / found[:, j].sum()
    return found


@pytest.mark.parametrize("shape", [(2, 2), (3, 5), (6, 1)])
def test_proportional_fitting_agrees_with_a_literal_loop(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    table, rows, columns = rng.random(shape) + 0.1, rng.dirichlet(np.ones(shape[0])), rng.dirichlet(np.ones(shape[1]))
    found = fit_margins(table, rows, columns, passes=2000, tolerance=1e-13)
    assert np.allclose(found, _literal(table, rows, columns), atol=1e-9)


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
