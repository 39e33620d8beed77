"""The published part of cascade's state as plain values and arrays, and back; what is no state is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.files import FileRefusedError, need, whole_number
from headwater.mechanisms.cascade.noisy_counts import NoisyCounts
from headwater.mechanisms.cascade.plan import Stage
from headwater.mechanisms.cascade.tree import Tree, unpacked
from headwater.mechanisms.protocol import Arrays, Header, State
from headwater.partition import DEEPEST


def pack(buckets: Sequence[NoisyCounts], further: Sequence[Tree]) -> State:
    """The noisy counts of these buckets with their trees, and further trees that are still to be measured.

    Trees are kept, not chosen again: measured twice, over trees that differ because a library rounds differently, the
    same noise would show what it should hide.
    """
    parts = [part for bucket in buckets for part in bucket.parts]
    flags = [flag for tree in (*(part.tree for part in parts), *further) for flag in tree.splits]
    counts = np.concatenate([np.empty(0, dtype=np.int64), *(part.counts for part in parts)])
    arrays: Arrays = {
        "splits": np.packbits(np.concatenate([np.empty(0, dtype=bool), *flags])),
        "counts": counts.astype(np.int32) if np.abs(counts).max(initial=0) < 1 << 31 else counts,
    }
    return {"spans": [[b.start, b.end, b.variance, len(b.parts)] for b in buckets]}, arrays


def unpack(header: Header, arrays: Arrays) -> tuple[list[NoisyCounts], Iterator[Tree]]:
    """The buckets that `pack` packed, and the further trees. The state must have been checked."""
    counts, buckets = arrays["counts"].astype(np.int64), list[NoisyCounts]()
    trees = unpacked(np.unpackbits(arrays["splits"]).astype(bool))
    for start, end, variance, resolutions in header["spans"]:
        parts = []
        for tree in islice(trees, resolutions):
            parts.append(NoisyCounts(start, end, tree, counts[: tree.size], variance))
            counts = counts[tree.size :]
        buckets.append(replace(parts[0], coarse=tuple(parts[1:])))
    return buckets, trees


def timescales(stage: Stage) -> list[list[float]]:
    """The plan of a stage. It is kept with the state, and must not change while a run lasts."""
    return [[scale.size, scale.epsilon, scale.siblings, scale.resolutions] for scale in stage.timescales]


def check(header: Header, arrays: Arrays, stage: Stage, kept: int, finest: int) -> None:
    """Refuse a state that no run can have left: a checksum finds damage, not what was made up.

    ``stage`` is that of the open slow bucket, ``kept`` the depth of its cells, ``finest`` the largest of any tree.
    """
    t, start, slow = (whole_number(header[name], name) for name in ("t", "start", "slow"))
    spans, halves = header["spans"], whole_number(header["halves"], "halves")
    need(start <= t, "start")
    need(isinstance(spans, list) and all(map(_is_span, spans)), "spans")
    need(slow <= len(spans) and len(spans) < 1 << 20, "slow")
    need(_follow(spans[:slow], 0, start), "slow")
    if spans[slow:]:  # fast buckets of the slow one that closed last
        need(slow > 0 and _follow(spans[slow:], spans[slow - 1][0], start), "spans")
    need(halves <= 2, "halves")
    need(t - start < stage.timescales[0].size, "t")
    cells, splits, counts = (arrays[name] for name in ("cells", "splits", "counts"))
    need(cells.ndim == splits.ndim == counts.ndim == 1, "arrays")
    need(cells.dtype.kind == "u" and 8 * cells.itemsize >= kept and len(cells) <= t - start, "cells")
    need(not cells.size or int(cells.max()) < 1 << kept, "cells")
    null = arrays.get("null", np.empty(0, dtype=np.int64))
    need(null.ndim == 1 and null.dtype == np.int64 and bool((np.diff(null) > 0).all()), "null")
    need(not null.size or (null[0] >= 0 and null[-1] < len(cells)), "null")
    need(splits.dtype == np.uint8 and counts.dtype.kind == "i", "splits and counts")
    # A slow bucket keeps the trees for its fast ones, unless it is the very first.
    need(halves > 0 or start == 0 or len(stage.timescales) == 1, "halves")
    if header["speeds"] != timescales(stage):
        raise FileRefusedError("this state was written under another plan of buckets; go on with that version")
    measured = sum(span[3] for span in spans)
    further = halves * sum(scale.resolutions for scale in stage.timescales[1:])
    sizes = list(_tree_sizes(np.unpackbits(splits).astype(bool), measured + further, finest))
    need(sum(sizes[:measured]) == len(counts), "counts")


def _is_span(span: object) -> bool:
    if not isinstance(span, list) or len(span) != 4:
        return False
    first, last, variance, resolutions = span
    for number in (first, last, resolutions):
        whole_number(number, "spans")
    good = first < last and 1 <= resolutions <= DEEPEST
    return good and isinstance(variance, float) and 0 < variance < float("inf")


def _follow(spans: list[list[Any]], first: int, last: int) -> bool:
    """Whether these spans cover all from the first to the last, one after another."""
    edges = [(first, first), *(span[:2] for span in spans), (last, last)]
    return all(one[1] == other[0] for one, other in pairwise(edges))


def _tree_sizes(flags: NDArray[np.bool_], trees: int, deepest: int) -> Iterator[int]:
    """How many leaves each tree has; refused unless the flags are those of exactly so many trees."""
    index = 0
    for _ in range(trees):
        nodes, depth, leaves = 1, 0, 1
        while nodes:
            need(index + nodes <= len(flags) and depth <= deepest, "splits")
            halved = int(flags[index : index + nodes].sum())
            index, nodes, depth, leaves = index + nodes, 2 * halved, depth + 1, leaves + halved
        yield leaves
    need(len(flags) - index < 8, "splits")
