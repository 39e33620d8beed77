"""Is this the state of a run? Looked at before anything of it is believed.

A checksum finds damage. It does not find a file that somebody has made, or that another program has written under a
matching checksum; and such a file must be refused with a word, not with a run that never ends or fills the memory.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.files import FileRefusedError, need
from headwater.measure.budget import level_at, level_start
from headwater.measure.cascade import CascadeMechanism
from headwater.measure.paper import PaperMechanism
from headwater.measure.plan import stage_at
from headwater.partition import DEEPEST

Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

LATEST = 1 << 60
"""No run takes more records than this."""


def restore(mechanism: CascadeMechanism | PaperMechanism, header: Header, arrays: Arrays) -> None:
    """Put a mechanism in the state that `state` gave, if it is one."""
    need(_whole(header["t"]), "t")
    if isinstance(mechanism, CascadeMechanism):
        _check_cascade(mechanism, header, arrays)
    else:
        _check_paper(mechanism, header, arrays)
    try:
        mechanism.restore(header, arrays)
    except FileRefusedError:
        raise
    except Exception as error:  # whatever it is, it comes from the file
        raise FileRefusedError("the state cannot be put together again") from error


def _check_cascade(mechanism: CascadeMechanism, header: Header, arrays: Arrays) -> None:
    t, start, slow, spans = (header[name] for name in ("t", "start", "slow", "spans"))
    need(_whole(start) and start <= t, "start")
    need(isinstance(spans, list) and all(map(_is_span, spans)), "spans")
    need(_whole(slow) and slow <= len(spans) and len(spans) < 1 << 20, "slow")
    need(_follow(spans[:slow], 0, start), "slow")
    if spans[slow:]:  # fast buckets of the slow one that closed last
        need(slow > 0 and _follow(spans[slow:], spans[slow - 1][0], start), "spans")
    need(_whole(header["halves"]) and header["halves"] <= 2, "halves")
    stage = stage_at(start, mechanism.partition.dimension, mechanism.epsilon)
    need(t - start < stage.speeds[0].size, "t")
    kept = min(mechanism.finest, 8) if start == 0 else mechanism.finest
    cells, splits, counts = (_flat(arrays[name]) for name in ("cells", "splits", "counts"))
    need(cells.dtype.kind == "u" and 8 * cells.itemsize >= kept and len(cells) == t - start, "cells")
    need(not cells.size or int(cells.max()) < 1 << kept, "cells")
    need(splits.dtype == np.uint8 and counts.dtype.kind == "i", "splits and counts")
    measured = sum(span[3] for span in spans)
    further = header["halves"] * sum(speed.rungs for speed in stage.speeds[1:])
    # A slow bucket keeps the trees for its fast ones, unless it is the very first.
    need(header["halves"] > 0 or start == 0 or len(stage.speeds) == 1, "halves")
    sizes = _sizes(np.unpackbits(splits).astype(bool), measured + further, mechanism.finest)
    need(sum(sizes[:measured]) == len(counts), "counts")


def _is_span(span: object) -> bool:
    if not isinstance(span, list) or len(span) != 4:
        return False
    first, last, variance, rungs = span
    good = _whole(first) and _whole(last) and first < last and _whole(rungs) and 1 <= rungs <= DEEPEST
    return good and isinstance(variance, float) and math.isfinite(variance) and variance > 0


def _follow(spans: list[list[Any]], first: int, last: int) -> bool:
    """Whether these spans cover all from the first to the last, one after another."""
    edges = [(first, first), *(span[:2] for span in spans), (last, last)]
    return all(one[1] == other[0] for one, other in pairwise(edges))


def _sizes(flags: NDArray[np.bool_], trees: int, deepest: int) -> list[int]:
    """How many leaves each tree has; refused unless the flags are those of exactly so many trees."""
    found, place = [], 0
    for _ in range(trees):
        nodes, depth, leaves = 1, 0, 1
        while nodes:
            need(place + nodes <= len(flags) and depth <= deepest, "splits")
            halved = int(flags[place : place + nodes].sum())
            place, nodes, depth, leaves = place + nodes, 2 * halved, depth + 1, leaves + halved
        found.append(leaves)
    need(len(flags) - place < 8, "splits")
    return found


def _check_paper(mechanism: PaperMechanism, header: Header, arrays: Arrays) -> None:
    t, levels = header["t"], header["levels"]
    expected, d, deepest = list[list[int]](), mechanism.partition.dimension, mechanism.partition.deepest
    time = 1
    while not expected or time <= t:
        level = level_at(time, mechanism.epsilon)
        depth = 0 if level < 0 else min(level, deepest) if d >= 2 else deepest
        end = level_start(level + 1, mechanism.epsilon)
        expected.append([level, depth, max(min(end, t + 1) - time, 0) if depth else 0])
        time = end
    need(levels == [one[:2] for one in expected], "levels")
    for i, (_, depth, points) in enumerate(expected):
        cells = _flat(arrays[f"cells{i}"])
        need(cells.dtype == np.uint64 and (not cells.size or int(cells.max()) < 1 << depth), f"cells{i}")
        if i == len(expected) - 1:
            need(len(cells) == points and f"ends{i}" not in arrays, f"cells{i}")
            continue
        ends = _flat(arrays[f"ends{i}"])
        need(ends.dtype == np.int64 and len(ends) == len(cells) + 1, f"ends{i}")
        need(ends[0] == 0 and ends[-1] == points and bool((ends[1:] > ends[:-1]).all()), f"ends{i}")
        need(bool((cells[1:] > cells[:-1]).all()), f"cells{i}")


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    need(array.ndim == 1, "arrays")
    return array


def _whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < LATEST
