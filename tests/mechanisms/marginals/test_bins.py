"""Bins are nested runs of codes, cut where published mass is; counts put every record in one cell, and add."""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwater.public.marginals.codes import Coding
from headwater.public.marginals.measured import NoisyTable
from headwater.public.marginals.questions import Question
from headwater.public.marginals.tables import Profile, cut, profile
from headwater.secret.bucket import count, cover


def as_runs(shares: NDArray[np.float64]) -> Profile:
    """Every code a run."""
    return Profile(np.arange(len(shares) + 1), np.concatenate([[0.0], np.cumsum(shares)]))


@given(
    values=st.integers(1, 3000),
    missing=st.booleans(),
    least=st.floats(1e-4, 0.5),
    most=st.integers(1, 64),
    seed=st.integers(0, 99),
)
@settings(max_examples=30)
def test_cuts_are_nodes_of_one_tree(values: int, missing: bool, least: float, most: int, seed: int) -> None:
    """From 0 upwards, at most so many, the missing value by itself, and each bin a dyadic part of the values."""
    coding = Coding(values, missing, ordered=True)
    shares = np.random.default_rng(seed).dirichlet(np.full(coding.size, 0.05))
    edges = cut(coding, as_runs(shares), (least,), most, least)
    bins = edges[:-1] if missing else edges
    assert edges[0] == 0
    assert (np.diff(edges) > 0).all()
    assert len(bins) <= most
    assert not missing or edges[-1] == values
    nodes = {(values * i >> level, values * (i + 1) >> level) for level in range(13) for i in range(1 << level)}
    assert nodes.issuperset(zip(bins.tolist(), [*bins[1:].tolist(), values], strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_a_profile_is_the_mean_of_tables_code_by_code(seed: int) -> None:
    rng = np.random.default_rng(seed)
    coding = Coding(50, bool(seed % 2), True)
    mass, tables = np.zeros(coding.size), []
    for records in (100, 400, 2000):
        edges = np.union1d(rng.integers(0, 50, 5), [0, 50] if coding.missing else [0])
        tables.append(NoisyTable((0,), 0, records, (edges,), rng.integers(-50, 100, len(edges)), 3.0, 18.0))
        for code in range(coding.size):
            at = int((edges <= code).sum()) - 1
            mass[code] += records / 18 * tables[-1].counts[at] / ([*edges, coding.size][at + 1] - edges[at])
    mass = np.maximum(mass, 0)
    assert np.diff(profile(coding, tables).below(np.arange(coding.size + 1))) == pytest.approx(mass / mass.sum())


@given(
    records=st.integers(0, 400),
    cut_at=st.integers(0, 400),
    seed=st.integers(0, 99),
)
@settings(max_examples=40)
def test_counts_of_two_lots_add_up_to_those_of_both(records: int, cut_at: int, seed: int) -> None:
    """And each table counts every record once, in the cell of its bins."""
    rng = np.random.default_rng(seed)
    codings = (Coding(40, True, True), Coding(5, False, False), Coding(1000, False, True))
    codes = np.stack([rng.integers(0, c.size, records) for c in codings]).astype(np.uint16)
    edges = (np.array([0, 7, 20, 40]), np.arange(5), np.array([0, 500]))
    questions = [Question(c, tuple(edges[i] for i in c)) for c in [(0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]]
    whole = count(codes, questions, codings)
    halves = [count(part, questions, codings) for part in (codes[:, :cut_at], codes[:, cut_at:])]
    for question, table, one, other in zip(questions, whole, *halves, strict=True):
        assert np.array_equal(table, one + other)
        assert table.sum() == records
        plain = np.zeros(question.shape, dtype=np.int64)
        for record in codes.T:
            plain[tuple(int((edges[i] <= record[i]).sum()) - 1 for i in question.columns)] += 1
        assert np.array_equal(table, plain)


@pytest.mark.parametrize("most", [0, 60, 1 << 14])
def test_pairs_that_are_counted_together_are_what_they_are_by_themselves(most: int) -> None:
    rng = np.random.default_rng(most)
    codings = [Coding(size, True, False) for size in (3, 40, 5, 8, 2, 300, 7)]
    codes = np.stack([rng.integers(0, c.size, 8 * most + 50) for c in codings]).astype(np.uint16)
    weights: NDArray[np.uint64] = np.array(rng.integers(0, 5, codes.shape[1]), dtype=np.uint64)
    edges = [np.arange(c.size) for c in codings]
    pairs = [(a, b) for a, b in combinations(range(7), 2) if (a + b) % 5]
    questions = [Question(pair, (edges[pair[0]], edges[pair[1]])) for pair in pairs]
    questions += [Question((0, 1), (edges[0], np.array([0, 9]))), Question((4,), (edges[4],)), questions[0]]
    axes = [tuple((c, id(e)) for c, e in zip(q.columns, q.edges, strict=True)) for q in questions]
    sizes = {
        axis: len(e) for q, of_q in zip(questions, axes, strict=True) for axis, e in zip(of_q, q.edges, strict=True)
    }
    groups = cover(axes, sizes, most)
    assert sorted(q for _, answered in groups for q in answered) == sorted(set(axes))
    assert all(len(group) <= 2 or prod(sizes[axis] for axis in group) <= most for group, _ in groups)
    assert len(groups) < len(set(axes)) if most else len(groups) == len(set(axes))
    ways: list[NDArray[np.uint64] | None] = [None, weights]
    for counted in ways:
        for question, table in zip(questions, count(codes, questions, codings, counted), strict=True):
            plain = np.zeros(question.shape, dtype=np.int64)
            where = [
                np.searchsorted(e, codes[c], "right") - 1 for c, e in zip(question.columns, question.edges, strict=True)
            ]
            np.add.at(plain, tuple(where), 1 if counted is None else counted.astype(np.int64))
            assert np.array_equal(table, plain)
    assert count(codes, [], codings) == []
