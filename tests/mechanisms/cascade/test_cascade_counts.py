"""What cascade counts: leaves one by one, cells of the right integer types, and records counted elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import headwater as hw
from headwater.mechanisms.cascade import measure as cascade_module
from headwater.mechanisms.cascade.leaf_counts import count_leaves
from headwater.mechanisms.cascade.measure import CascadeMechanism, histogram
from headwater.mechanisms.cascade.tree import Tree, children
from headwater.noise import Noise
from headwater.partition import Partition
from tests.support.runs import cube, feed, same
from tests.support.trees import crowd, leaves_one_by_one, random_tree

# --- counting leaves -------------------------------------------------------------------------------------


@given(
    depth=st.sampled_from([1, 3, 8, 9, 20, 32, 33, 40, 59]),
    n=st.integers(0, 300),
    kind=st.sampled_from(["spread", "equal", "ends", "crowded"]),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=150, deadline=None)
def test_leaves_are_counted_as_one_by_one(depth: int, n: int, kind: str, seed: int) -> None:
    """Also for trees of several rounds of `count_leaves`, for no points, and for the first and the last cell."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, int(rng.integers(0, depth + 1)), 40)
    last = (1 << depth) - 1
    cells = rng.integers(0, last, n, dtype=np.uint64, endpoint=True)
    if kind == "equal":
        cells[:] = rng.integers(0, last, dtype=np.uint64, endpoint=True)
    elif kind == "ends":
        cells = rng.choice(np.array([0, last], dtype=np.uint64), n)
    elif kind == "crowded":
        deepest = [nodes for nodes, _ in tree.nodes()][-1]
        shift = np.uint64(depth - len(tree.splits) + 1)
        cells = (rng.choice(deepest, n) << shift) + (cells & ((np.uint64(1) << shift) - np.uint64(1)))
    stored = cells.astype(cascade_module._word(depth))
    counts = count_leaves(stored, depth, tree)
    assert counts.dtype == np.int64
    assert counts.tolist() == leaves_one_by_one(cells, depth, tree)
    assert counts.sum() == n


@pytest.mark.parametrize("atoms", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("depth", [32, 40])
def test_many_points_are_counted_as_few(atoms: float, depth: int) -> None:
    """Many chunks and several rounds: points along a line, and so many in one place that their leaf is far deeper."""
    rng = np.random.default_rng(4)
    cells = (rng.beta(0.1, 3.0, 200_000) * 2**depth).astype(np.uint64)
    cells[rng.random(len(cells)) < atoms] = (1 << depth) // 3
    splits, nodes = list[NDArray[np.bool_]](), np.zeros(1, dtype=np.uint64)
    for level in range(depth + 1):  # split whatever holds 10 points
        held = np.searchsorted(np.sort(cells), np.stack([nodes, nodes + np.uint64(1)]) << np.uint64(depth - level))
        splits.append((held[1] - held[0] >= 10) & (level < depth))
        nodes = children(nodes[splits[-1]])
    tree = Tree(tuple(splits[: 1 + max(i for i in range(depth) if splits[i].any()) + 1]))
    ordered = np.sort(cells).astype(np.int64)
    starts, stops = tree.edges(depth)
    expected = np.searchsorted(ordered, stops) - np.searchsorted(ordered, starts)
    counts = count_leaves(cells.astype(cascade_module._word(depth)), depth, tree)
    assert counts.tolist() == expected.tolist()
    assert counts.sum() == len(cells)


def test_cells_are_stored_in_the_shortest_word() -> None:
    words = [cascade_module._word(depth) for depth in (1, 8, 9, 32, 33, 59)]
    assert words == [np.uint8, np.uint8, np.uint32, np.uint32, np.uint64, np.uint64]


def test_slow_buckets_cover_the_past_and_the_last_one_also_in_fast_steps() -> None:
    mechanism = CascadeMechanism(cube(Partition(2)), 20.0, Noise(seed=1))
    feed(mechanism, crowd(20_000, 2))
    assert [s.start for s in mechanism.history.slow] == [0, *(s.end for s in mechanism.history.slow[:-1])]
    assert mechanism.history.slow[-1].end == mechanism.start == 16384
    assert mechanism.history.recent[0].start == mechanism.history.slow[-1].start
    assert mechanism.history.recent[-1].end == mechanism.history.slow[-1].end


@pytest.mark.parametrize("epsilon", [0.5, 30.0])
def test_on_a_line_coarse_trees_are_parts_of_the_finest(epsilon: float) -> None:
    """What `blend` relies on."""
    mechanism = CascadeMechanism(cube(Partition(1)), epsilon, Noise(seed=1))
    feed(mechanism, crowd(20_000, 1))
    resolutions = 0
    for summary in (*mechanism.history.slow, *mechanism.history.recent):
        fine = [set(nodes[split].tolist()) for nodes, split in summary.tree.nodes()]
        for part in summary.coarse:
            resolutions += 1
            for (nodes, split), known in zip(part.tree.nodes(), fine, strict=False):
                assert set(nodes[split].tolist()) <= known
    assert resolutions > 5


# --- counted elsewhere -----------------------------------------------------------------------------------


def make(d: int = 2, epsilon: float = 20.0, mechanism: str = "cascade", seed: int = 1) -> hw.Synthesizer:
    return hw.Synthesizer(hw.unit_cube(d), epsilon=epsilon, mechanism=mechanism, seed=seed)


@given(
    d=st.integers(1, 3),
    epsilon=st.sampled_from([0.5, 20.0, 200.0]),
    takes=st.lists(st.integers(0, 120), min_size=1, max_size=8),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=25, deadline=None)
def test_counted_records_give_what_the_records_give(d: int, epsilon: float, takes: list[int], seed: int) -> None:
    """In turns with records in order, split over two machines, each count within the room of the moment."""
    x = crowd(1000, d, seed)
    plain, counted = make(d, epsilon), make(d, epsilon)
    for i, take in enumerate(takes):
        part = x[plain.t : plain.t + take]
        plain.update(part)
        while len(part):
            fits, part = part[: counted.remaining], part[counted.remaining :]
            if i % 3 == 2:
                counted.update(fits)
                continue
            for half in (fits[::2], fits[1::2]):
                counted.update_counts(*counted.histogram(half))
        assert plain.t == counted.t
    assert same(plain.release(), counted.release())


def test_a_histogram_reads_nothing_of_the_run() -> None:
    x = crowd(500, 3)
    early, late = make(3), make(3, seed=9)
    late.update(x)
    (cells, counts), (again, numbers) = early.histogram(x), late.histogram(x)
    assert (cells.tolist(), counts.tolist()) == (again.tolist(), numbers.tolist())
    assert counts.sum() == 500
    assert np.array_equal(histogram(x, Partition(3))[0], histogram(x[::-1], Partition(3))[0])
    assert [array.size for array in early.histogram(np.empty((0, 3)))] == [0, 0]


def test_room_is_what_the_fastest_open_bucket_has_left() -> None:
    synth = make()
    synth.update(crowd(4100, 2))  # buckets of 1,024, 128 and 32 points since 4,096
    assert synth.remaining == 28
    synth.update_counts(*synth.histogram(crowd(28, 2)))
    assert (synth.t, synth.remaining) == (4128, 32)


COUNTED: dict[str, tuple[object, object, type[Exception], str]] = {
    "too many": ([0, 5], [20, 9], ValueError, "do not fit"),
    "far too many": ([0], [2**39], ValueError, "do not fit"),
    "more than a word holds": ([1, 2, 3], [2**63 - 1, 2**63 - 1, 4], ValueError, "counts must be below"),
    "more than a signed word holds": ([1], np.array([2**64 - 1], dtype=np.uint64), ValueError, "counts must be below"),
    "negative count": ([0, 1], [2, -1], ValueError, "counts must not be negative"),
    "negative cell": ([0, -1], [2, 1], ValueError, "cells must lie between 0 and"),
    "cell beyond": ([2**32], [1], ValueError, "cells must lie between 0 and"),
    "cell far beyond": (np.array([2**64 - 1], dtype=np.uint64), [1], ValueError, "cells must lie between 0 and"),
    "different lengths": ([0, 1], [1], ValueError, "two lists of one length"),
    "tables": ([[0, 1]], [[1, 1]], ValueError, "two lists of one length"),
    "numbers": (3, 1, ValueError, "two lists of one length"),
    "fractions": ([0.0, 1.0], [1, 1], TypeError, "cells must be whole numbers"),
    "fractional counts": ([0, 1], [1.0, 1.0], TypeError, "counts must be whole numbers"),
    "strings": (["a"], [1], TypeError, "cells must be whole numbers, not strings"),
    "booleans": ([0], [True], TypeError, "counts must be whole numbers, not booleans"),
    "masked": (np.ma.masked_array([1, 2], mask=[False, True]), [1, 1], TypeError, "masked"),
}


@pytest.mark.parametrize("case", COUNTED)
def test_bad_counts_are_refused_and_change_nothing(case: str) -> None:
    cells, counts, error, message = COUNTED[case]
    synth, other = make(epsilon=1.0), make(epsilon=1.0)
    for s in (synth, other):
        s.update(crowd(612, 2))
    with pytest.raises(error, match=message):
        synth.update_counts(cells, counts)
    assert (synth.t, synth.remaining) == (612, 28)
    for s in (synth, other):
        s.update(crowd(100, 2, seed=1))
    assert same(synth.release(), other.release())
