"""Empirical Bayes of two-way tables: against the literal formulas, and against what it should beat."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.public.marginals.denoise import Atoms, Counted, Pooled, denoise
from headwater.public.marginals.smooth import fit_margins, project

RNG = np.random.default_rng


def _pooled(truth: np.ndarray, scale: float, records: float, seed: int, tables: int = 1) -> Pooled:
    rng = RNG(seed)
    independent = np.outer(truth.sum(1), truth.sum(0))
    return Pooled(
        [
            Counted(
                truth * records + rng.laplace(0, scale, truth.shape), np.full(truth.shape, scale), records, independent
            )
            for _ in range(tables)
        ]
    )


def _sparse(seed: int, shape: tuple[int, int] = (12, 9)) -> np.ndarray:
    table: np.ndarray = RNG(seed).gamma(0.1, size=shape) + 1e-9
    shares: np.ndarray = table / table.sum()
    return shares


def test_the_posterior_is_bayes_rule_cell_by_cell() -> None:
    """Two tables with different noise, one prediction, tilts: every number by a literal loop in double precision."""
    rng = RNG(1)
    truth = _sparse(2, (3, 4))
    independent = [np.outer(rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4))) for _ in range(2)]
    scales = [np.full((3, 4), 20.0), np.full((3, 4), 50.0)]
    pooled = Pooled(
        [Counted(1000 * truth + rng.laplace(0, s), s, 1000.0, b) for s, b in zip(scales, independent, strict=True)]
    )
    prediction = rng.dirichlet(np.ones(12)).reshape(3, 4)
    atoms = Atoms(pooled, [prediction])
    weights = rng.dirichlet(np.ones(len(atoms.values)))
    down, across = rng.normal(0, 0.01, 3), rng.normal(0, 0.01, 4)
    found = atoms._posterior(weights, atoms._likely(down, across))
    base = pooled.independent
    for i in range(3):
        for j in range(4):
            multiples = atoms.values[:, i, j] / base[i, j]
            logs = np.log(weights) + (down[i] + across[j]) / pooled.deviation**2 * atoms.values[:, i, j]
            for table, b in zip(pooled.tables, independent, strict=True):
                here = multiples * b[i, j]
                steps = len(atoms._parts)
                most = min(b[i].sum(), b[:, j].sum())
                here[38 : 38 + steps] = atoms._parts * most  # 0, 37 multiples of independence, then shares of the most
                logs = logs - np.abs(table.counts[i, j] - 1000 * here) / table.scale[i, j]
            literal = np.exp(logs - logs.max())
            assert np.allclose(found[:, i, j], literal / literal.sum(), atol=2e-4)


@pytest.mark.parametrize("shape", [(2, 3), (12, 9)])
def test_an_estimate_is_a_distribution_with_the_known_margins(shape: tuple[int, int]) -> None:
    truth = _sparse(5, shape)
    table = denoise(_pooled(truth, 300.0, 2000.0, 6), None, None)
    assert table.min() >= 0
    assert np.allclose(table.sum(1), truth.sum(1), atol=1e-6)
    assert np.allclose(table.sum(0), truth.sum(0), atol=1e-6)


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
