"""The state of a run as plain values and arrays, and back; what is not a state is refused before it is used."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.files import need, whole_number
from headwater.joint_law import fits
from headwater.laws import Cost, JointLaplace
from headwater.mechanisms.marginals.codes import NULL, Codes
from headwater.mechanisms.marginals.measured import Coding, Integers, NoisyTable
from headwater.mechanisms.marginals.pairs import Pair, joined
from headwater.mechanisms.marginals.plan import Stage
from headwater.mechanisms.marginals.prediction import Outlook
from headwater.mechanisms.protocol import Arrays, Header, State
from headwater.privacy import DiscreteGaussian, IntegerLaplace, Spend

NONE = -(1 << 62)
"""Stands for a number of records that was not asked for."""


def pack(t: int, tables: Sequence[NoisyTable], outlook: Outlook, codes: Codes) -> State:
    """The time, everything published, what it says of the stage to come, and the codes of the open slow bucket."""
    edges = [e for table in tables for e in table.edges]
    counts = np.concatenate([np.empty(0, dtype=np.int64), *(table.counts.ravel() for table in tables)])
    small = np.abs(counts).max(initial=0) < 1 << 31
    arrays: Arrays = {
        "codes": np.ascontiguousarray(codes).astype("<u2").view(np.uint8).reshape(-1),
        "edges": np.concatenate([np.empty(0, dtype=np.int32), *edges]).astype(np.int32),
        "counts": counts.astype(np.int32) if small else counts,
        "scales": np.array([table.scale for table in tables], dtype=np.float64),
        "variances": np.array([table.variance for table in tables], dtype=np.float64),
        "joint": np.array([table.joint for table in tables], dtype=np.int32),
        "present": np.array([NONE if table.present is None else table.present for table in tables], dtype=np.int64),
        "moving": np.array(outlook.moving, dtype=np.float64),
    }
    layout = [[list(table.columns), table.start, table.end, list(table.counts.shape)] for table in tables]
    pairs = {"tree": [list(pair) for pair in outlook.tree], "kept": [list(pair) for pair in outlook.kept]}
    return {"t": t, "tables": layout} | pairs, arrays


def unpack(
    header: Header, arrays: Arrays, codings: Sequence[Coding], stage_at: Callable[[int], Stage], counted: int
) -> tuple[list[NoisyTable], Outlook, Codes]:
    """What `pack` packed, if that is what it is: buckets of the plan, bins of the columns, and no budget overdrawn.

    ``counted`` of the records of the open slow bucket are not among its codes.
    """
    t, layout = whole_number(header["t"], "t"), header["tables"]
    need(isinstance(layout, list) and len(layout) < 1 << 24, "tables")
    edges, counts, scales = (_flat(arrays[name]) for name in ("edges", "counts", "scales"))
    need(edges.dtype.kind == "i" and counts.dtype.kind == "i", "edges and counts")
    variances, joints, presents = (_flat(arrays[name]) for name in ("variances", "joint", "present"))
    need(scales.dtype == variances.dtype == np.float64 and len(scales) == len(variances) == len(layout), "scales")
    need(presents.dtype == np.int64 and len(presents) == len(layout), "present")
    need(joints.dtype.kind == "i" and len(joints) == len(layout) and bool((joints >= 0).all()), "joint")
    tables, spent, latest = list[NoisyTable](), defaultdict[tuple[int, int], Cost](Fraction), 0
    shared = dict[tuple[int, int, int], tuple[float, list[int]]]()  # the scale of each joint draw, and its tables
    numbers = (array.tolist() for array in (scales, variances, joints, presents))
    for entry, scale, noise, joint, number in zip(layout, *numbers, strict=True):
        need(isinstance(entry, list) and len(entry) == 4, "tables")
        columns, start, end, shape = entry
        stage = _stage(start, end, latest, t, stage_at)
        latest = end
        need(_rising(columns, len(codings)) and 1 <= len(columns) <= 3, "tables")
        need(isinstance(shape, list) and len(shape) == len(columns), "tables")
        shape = [whole_number(size, "tables") for size in shape]
        cells = math.prod(shape)
        need(sum(shape) <= len(edges) and cells <= len(counts) and min(shape) > 0, "counts")
        bins = []
        for column, size in zip(columns, shape, strict=True):
            bins.append(_edges(edges[:size].astype(np.int64), codings[column]))
            edges = edges[size:]
        need(math.isfinite(scale) and 0 < scale <= 2.0**50, "scales")
        fast = end < stage.end or start > stage.start
        gaussian = stage.accounting.gaussian
        need(not gaussian or scale <= 2.0**40, "scales")
        need(math.isfinite(noise) and noise > 0, "variances")
        present = None if number == NONE else number
        need(present is None or shape == [2], "present")
        single = shape == [2] and present is None
        spend = Spend("table", (DiscreteGaussian if gaussian else IntegerLaplace)(scale), 1 if single else 2)
        if joint:
            spend = Spend("tables", JointLaplace(scale), int((start, end, joint) not in shared))  # paid for once
            of_draw, sizes = shared.setdefault((start, end, joint), (scale, []))
            sizes += [1] * (1 if single else 2) if shape == [2] else [cells]
            need(not (gaussian or fast) and of_draw == scale and cells > 1 and fits(scale, sizes), "joint")
        spent[start, end] += spend.rho if gaussian else spend.cost
        need(spent[start, end] <= (stage.fast_budget if fast else stage.slow_budget), "scales")
        noisy = counts[:cells].astype(np.int64).reshape(shape)
        counts = counts[cells:]
        tables.append(
            NoisyTable(tuple(columns), start, end, tuple(bins), noisy, scale, noise, gaussian, joint, present)
        )
    need(not len(edges) and not len(counts), "counts")
    moving = _flat(arrays["moving"])
    need(moving.dtype == np.float64 and len(moving) == len(codings), "moving")
    weighed = (moving >= 2.0**-20) & (moving <= 1)  # a smaller part of a budget would be none
    need(bool(weighed.any() and (weighed | (moving == 0)).all()), "moving")
    codes = _codes(arrays["codes"], t - stage_at(t).start - counted, codings)
    tree, kept = (_pairs(header[name], len(codings), name) for name in ("tree", "kept"))
    return tables, Outlook(tree, kept, tuple(moving.tolist())), codes


def _stage(start: Any, end: Any, latest: int, t: int, stage_at: Callable[[int], Stage]) -> Stage:  # noqa: ANN401 - of a file
    """The stage of a bucket; refused unless the plan has that bucket, and it has ended."""
    need(whole_number(start, "tables") < whole_number(end, "tables") and latest <= end <= t, "tables")
    stage = stage_at(start)
    fast = stage.fast and (start - stage.start) % stage.fast == 0 and end == stage.fast_end(start)
    need(bool(fast) or (start, end) == (stage.start, stage.end), "tables")
    return stage


def _edges(edges: Integers, coding: Coding) -> Integers:
    need(edges[0] == 0 and bool((np.diff(edges) > 0).all()) and int(edges[-1]) < coding.size, "edges")
    need(coding.ordered or len(edges) == coding.size, "edges")
    need(not coding.missing or int(edges[-1]) == coding.values, "edges")
    return edges


def _codes(packed: NDArray[Any], records: int, codings: Sequence[Coding]) -> Codes:
    need(_flat(packed).dtype == np.uint8 and len(packed) == 2 * records * len(codings), "codes")
    codes: Codes = packed.view("<u2").astype(np.uint16).reshape(len(codings), records)
    check_codes(codes[:, (codes != NULL).any(axis=0)], codings)
    return codes


def check_codes(codes: Codes, codings: Sequence[Coding]) -> None:
    """Refuse codes that no value of a column has."""
    for row, coding in zip(codes, codings, strict=True):
        need(not row.size or int(row.max()) < coding.size, "codes")


def _pairs(pairs: Any, count: int, name: str) -> tuple[Pair, ...]:  # noqa: ANN401 - of a file
    """The pairs of a forest: each joins two groups of columns."""
    need(isinstance(pairs, list) and len(pairs) < count, name)
    groups = list(range(count))
    for pair in pairs:
        need(_rising(pair, count) and len(pair) == 2 and groups[pair[0]] != groups[pair[1]], name)
        groups = joined(groups, pair)
    return tuple((a, b) for a, b in pairs)


def _rising(columns: Any, count: int) -> bool:  # noqa: ANN401 - of a file
    known = isinstance(columns, list) and all(whole_number(column, "tables") < count for column in columns)
    return bool(known and columns == sorted(set(columns)))


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    need(array.ndim == 1, "arrays")
    return array
