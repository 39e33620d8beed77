"""Spanning forests and what a tree says of pairs, against enumeration."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from headwater.public.marginals.draw import select, tree_laws
from headwater.public.marginals.tree import Forest, along, conditional, joint, spanning_forest

SIZES = (3, 2, 4, 3)
TREE = ((0, 1), (1, 2), (1, 3))
PAIRS = list(combinations(range(4), 2))


def _chain(seed: int, spans: int = 1) -> tuple[dict[tuple[int, int], np.ndarray], list[np.ndarray], np.ndarray]:
    """Tables of the tree's pairs in each span, margins that agree with them, and the whole joint by enumeration."""
    rng = np.random.default_rng(seed)
    whole = np.empty((spans, *SIZES))
    for span in range(spans):
        root = rng.dirichlet(np.ones(SIZES[1]))
        laws = {c: rng.dirichlet(np.ones(SIZES[c]), SIZES[1]) for c in (0, 2, 3)}
        for cell in product(*map(range, SIZES)):
            whole[(span, *cell)] = root[cell[1]] * np.prod([laws[c][cell[1], cell[c]] for c in (0, 2, 3)])
    joints = {pair: whole.sum(tuple(c + 1 for c in range(4) if c not in pair)) for pair in TREE}
    margins = [whole.sum(tuple(c + 1 for c in range(4) if c != column)) for column in range(4)]
    return joints, margins, whole


def _forests(columns: int) -> list[tuple[tuple[int, int], ...]]:
    sets = [edges for size in range(columns) for edges in combinations(combinations(range(columns), 2), size)]
    return [edges for edges in sets if len(spanning_forest(dict.fromkeys(edges, 1.0), columns)) == len(edges)]


def test_the_spanning_forest_has_the_largest_score_of_all_forests() -> None:
    rng = np.random.default_rng(4)
    for _ in range(30):
        scores = {pair: float(rng.random()) for pair in PAIRS if rng.random() < 0.8}
        best = max(sum(scores[p] for p in forest) for forest in _forests(4) if set(forest) <= set(scores))
        assert np.isclose(sum(scores[p] for p in spanning_forest(scores, 4)), best)


def test_pairs_along_the_tree_agree_with_enumeration() -> None:
    joints, _, whole = _chain(5, spans=2)
    forest = Forest(TREE, 4)
    for a, b in PAIRS:
        path = forest.path(a, b)
        assert path is not None
        truth = whole.sum(tuple(c + 1 for c in range(4) if c not in (a, b)))
        assert np.allclose(along(path, joints), truth)


def test_laws_with_evidence_agree_with_bayes() -> None:
    joints, margins, whole = _chain(6, spans=2)
    shares = np.array([0.3, 0.7])
    evidence = {0: np.array([0.0, 1.0, 0.5]), 3: np.array([1.0, 0.0, 1.0])}
    forest = Forest(TREE, 4)
    laws = tree_laws(forest, joints, margins, shares, evidence)
    truth = shares[:, None, None, None, None] * whole
    truth = truth * evidence[0][None, :, None, None, None] * evidence[3]
    truth /= truth.sum()
    assert np.allclose(laws.spans, truth.sum((1, 2, 3, 4)))
    found = np.empty_like(truth)
    normal = {c: law / np.maximum(law.sum(-1, keepdims=True), 1e-300) for c, law in laws.given.items()}
    for span, *cell in product(range(2), *map(range, SIZES)):
        share = laws.spans[span]
        for column, parent in forest.parent.items():
            share *= normal[column][span, 0 if parent is None else cell[parent], cell[column]]
        found[(span, *cell)] = share
    assert np.allclose(found, truth)


def test_tables_from_a_column_are_those_along_its_paths() -> None:
    rng = np.random.default_rng(9)
    edges, sizes = [(0, 2), (1, 2), (2, 3), (3, 5), (4, 6)], (2, 3, 4, 5, 2, 3, 2)
    joints = {(a, b): rng.random((2, sizes[a], sizes[b])) for a, b in edges}
    laws = {(a, b): conditional(joint(joints, a, b)) for e in edges for a, b in (e, e[::-1])}
    forest = Forest(edges, 7)
    for column in range(7):
        found = forest.tables_from(column, joints, laws)
        reached = {other: path for other in range(7) if (path := forest.path(column, other)) and other != column}
        assert found.keys() == reached.keys()
        for other, path in reached.items():
            assert np.allclose(found[other], along(path, joints))


def test_systematic_selection_takes_the_floor_or_the_ceiling_of_every_expectation() -> None:
    rng = np.random.default_rng(7)
    weights = rng.random(50)
    for rows in (0, 1, 20, 500):
        taken = np.bincount(select(weights, rng.permutation(50), rows, rng), minlength=50)
        expected = weights / weights.sum() * rows
        assert taken.sum() == rows
        assert (taken >= np.floor(expected - 1e-9)).all()
        assert (taken <= np.ceil(expected + 1e-9)).all()
