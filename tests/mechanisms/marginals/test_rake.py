"""Raking against proportional fitting of the whole joint."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from headwater.public.marginals import draw as module
from headwater.public.marginals.draw import Constraint, rake

SIZES = (2, 3, 2)


def test_raking_every_cell_once_is_proportional_fitting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record for every cell, targets that agree with each other: weights become the fitted joint, and meet them."""
    monkeypatch.setattr(module, "LEAST", 0.0)
    rng = np.random.default_rng(1)
    cells = np.array(list(product(*map(range, SIZES)))).T
    target = rng.dirichlet(np.ones(cells.shape[1])).reshape(SIZES)
    constraints = []
    for a, b in combinations(range(3), 2):
        margin = target.sum(tuple(c for c in range(3) if c not in (a, b)))
        constraints.append(Constraint(cells[a] * SIZES[b] + cells[b], margin.ravel(), 1.0))
    weights, factors = rake(constraints, cells.shape[1], 400)
    joint = np.full(SIZES, 1 / target.size)
    for _ in range(400):
        for axis in (2, 1, 0):
            joint = joint * (target.sum(axis, keepdims=True) / joint.sum(axis, keepdims=True))
    assert np.allclose(weights, joint.ravel(), atol=1e-9)
    product_of_factors = np.prod([f[c.cells] for f, c in zip(factors, constraints, strict=True)], axis=0)
    assert np.allclose(product_of_factors / product_of_factors.sum(), weights, atol=1e-9)
