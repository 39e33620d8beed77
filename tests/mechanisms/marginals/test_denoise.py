"""Empirical Bayes of two-way tables: against the literal formulas, and against what it should beat."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.public.marginals.denoise import (
    REACH,
    SETTLED,
    Atoms,
    Counted,
    Pooled,
    denoise,
)

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


def _literal(atoms: Atoms, iterations: int) -> tuple[np.ndarray, float]:
    """EM with the whole posterior of every cell in every iteration, in double precision."""
    pooled, values, log = atoms.pooled, atoms.values.astype(float), atoms.log.astype(float)
    variance, limit = pooled.deviation**2, REACH * pooled.deviation
    down, across = np.zeros(values.shape[1]), np.zeros(values.shape[2])
    weights, best = np.full(len(values), 1 / len(values)), np.inf

    def posterior() -> np.ndarray:
        raw = log + np.log(weights)[:, None, None] + values * np.add.outer(down, across) / variance
        raw = np.exp(raw - raw.max(0))
        return np.asarray(raw / raw.sum(0))

    def step(axis: int, margin: np.ndarray, found: np.ndarray) -> np.ndarray:
        mean = (found * values).sum(0)
        spread = (found * values**2).sum(0) - mean**2
        move = 0.7 * (margin - mean.sum(axis)) * variance / (spread.sum(axis) + 0.3 * variance)
        return np.asarray(move)

    for iteration in range(iterations + 1):
        found = posterior()
        mean = (found * values).sum(0)
        gap = np.abs(pooled.rows - mean.sum(1)).sum() + np.abs(pooled.columns - mean.sum(0)).sum()
        if iteration > SETTLED and gap < best:
            best, nearest = gap, found
        weights, here = found.mean((1, 2)) + 1e-7, values
        if iteration == SETTLED:
            often = weights > 1e-4
            here, weights = values[often], weights[often]
        weights /= weights.sum()
        if iteration >= SETTLED and iteration % 2:
            down = np.clip(down + step(1, pooled.rows, found), -limit, limit)
        values, log = (here, log[often]) if iteration == SETTLED else (values, log)
        if iteration >= SETTLED and iteration % 2:
            across = np.clip(across + step(0, pooled.columns, posterior()), -limit, limit)
    median = np.empty(values.shape[1:])
    for i, j in np.ndindex(*median.shape):
        order = np.argsort(values[:, i, j])
        cell, upper = values[order, i, j], np.cumsum(nearest[order, i, j])
        at = int((upper < 0.5).sum())
        below = upper[at - 1] if at else 0.0
        part = (0.5 - below) / (upper[at] - below)
        median[i, j] = cell[at - 1] + (cell[at] - cell[at - 1]) * part if at else cell[0]
    return median, float((nearest * np.abs(values - median)).sum() / 2)


@pytest.mark.parametrize("predicted", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_em_is_that_of_the_literal_posterior(seed: int, predicted: bool) -> None:
    """In single precision and without the posterior itself: the same table within a thousandth of its noise."""
    pooled = _pooled(_sparse(seed), 30.0, 2000.0, seed + 10, tables=2)
    predictions = [_sparse(seed + 20)] if predicted else []
    median, loss = _literal(Atoms(pooled, predictions), 12)
    found, expected = Atoms(pooled, predictions).estimate(12)
    assert np.abs(found - median).max() < 1e-3 * pooled.deviation
    assert np.isclose(expected, loss, rtol=1e-3)


@pytest.mark.parametrize("shape", [(2, 3), (12, 9)])
def test_an_estimate_is_a_distribution_with_the_known_margins(shape: tuple[int, int]) -> None:
    truth = _sparse(5, shape)
    table, loss = denoise(_pooled(truth, 300.0, 2000.0, 6), None, None)
    assert table.min() >= 0
    assert np.allclose(table.sum(1), truth.sum(1), atol=1e-6)
    assert np.allclose(table.sum(0), truth.sum(0), atol=1e-6)
    assert 0 <= loss <= 1.5
