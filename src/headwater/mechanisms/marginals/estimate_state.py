"""An estimate as plain values and arrays, and back, with everything checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.files import need
from headwater.mechanisms.marginals.estimate import Estimate
from headwater.mechanisms.marginals.grid import Floats
from headwater.mechanisms.marginals.measured import Coding, Integers
from headwater.mechanisms.marginals.shape import Shape
from headwater.mechanisms.marginals.tree import Pair, spanning_forest
from headwater.mechanisms.protocol import Arrays, Header, State


def estimate_state(estimate: Estimate) -> State:
    """The estimate as plain values and arrays; `restore_estimate` backwards."""
    pairs = list(estimate.ratios)
    header: Header = {
        "bins": [len(grid) for grid in estimate.grids],
        "parts": [len(shape.edges) for shape in estimate.shapes],
        "pairs": [list(pair) for pair in pairs],
        "tree": [list(pair) for pair in estimate.tree],
    }
    arrays: Arrays = {
        "grids": np.concatenate(estimate.grids),
        "edges": estimate.edges,
        "margins": np.concatenate(estimate.margins, axis=1),
        "errors": np.concatenate(estimate.errors),
        "ratios": np.concatenate([np.zeros(0), *(estimate.ratios[pair].ravel() for pair in pairs)]),
        "deviations": np.array([(*estimate.deviations[p], estimate.losses[p]) for p in pairs]).reshape(-1, 3),
        "part_edges": np.concatenate([shape.edges for shape in estimate.shapes]),
        "part_shares": np.concatenate([shape.shares for shape in estimate.shapes]),
        "part_variances": np.concatenate([shape.variance for shape in estimate.shapes]),
        "drifts": estimate.drifts,
    }
    return header, arrays


def restore_estimate(header: Header, arrays: Arrays, codings: Sequence[Coding]) -> Estimate:
    """The estimate that a state describes; refused if no model of these columns can have it."""
    columns = len(codings)
    bins, parts = (_counts(header[name], columns, name) for name in ("bins", "parts"))
    pairs, tree = (_pairs(header[name], columns, name) for name in ("pairs", "tree"))
    need(set(tree) <= set(pairs) and len(spanning_forest(dict.fromkeys(tree, 1.0), columns)) == len(tree), "tree")
    edges = _numbers(arrays["edges"], (len(arrays["edges"]),), "edges")
    need(len(edges) > 1 and bool((np.diff(edges) > 0).all()), "edges")
    spans = len(edges) - 1
    margins = _numbers(arrays["margins"], (spans, sum(bins)), "margins")
    errors = _numbers(arrays["errors"], (sum(bins),), "errors")
    ratios = _numbers(arrays["ratios"], (sum(bins[a] * bins[b] for a, b in pairs),), "ratios")
    deviations = _numbers(arrays["deviations"], (len(pairs), 3), "deviations")
    shares, variances = (_numbers(arrays[name], (sum(parts),), name) for name in ("part_shares", "part_variances"))
    ends = np.cumsum(parts)[:-1]
    grids = _starts(arrays["grids"], bins, codings, "grids")
    starts = _starts(arrays["part_edges"], parts, codings, "part_edges")
    need(all(np.isin(grid, fine).all() for grid, fine in zip(grids, starts, strict=True)), "part_edges")
    columns_of = np.split(margins, np.cumsum(bins)[:-1], axis=1)
    need(all(np.allclose(margin.sum(1), 1) for margin in columns_of), "margins")
    sizes = np.cumsum([bins[a] * bins[b] for a, b in pairs])[:-1]
    tables = np.split(ratios, sizes) if pairs else []
    return Estimate(
        grids=grids,
        edges=edges,
        margins=tuple(columns_of),
        errors=tuple(np.split(errors, np.cumsum(bins)[:-1])),
        ratios={(a, b): table.reshape(bins[a], bins[b]) for (a, b), table in zip(pairs, tables, strict=True)},
        deviations={pair: (float(d[0]), float(d[1])) for pair, d in zip(pairs, deviations, strict=True)},
        losses={pair: float(d[2]) for pair, d in zip(pairs, deviations, strict=True)},
        tree=tuple(tree),
        shapes=tuple(Shape(*s) for s in zip(starts, *(np.split(a, ends) for a in (shares, variances)), strict=True)),
        drifts=_numbers(arrays["drifts"], (columns,), "drifts"),
    )


def _counts(values: Any, columns: int, name: str) -> list[int]:  # noqa: ANN401 - of a file
    need(isinstance(values, list) and len(values) == columns, name)
    need(all(type(value) is int and value > 0 for value in values), name)
    return list(values)


def _pairs(values: Any, columns: int, name: str) -> list[Pair]:  # noqa: ANN401 - of a file
    need(isinstance(values, list) and all(isinstance(v, list) and len(v) == 2 for v in values), name)
    need(all(type(c) is int for v in values for c in v) and all(0 <= a < b < columns for a, b in values), name)
    pairs = [(a, b) for a, b in values]
    need(len(set(pairs)) == len(pairs), name)
    return pairs


def _numbers(array: NDArray[Any], shape: tuple[int, ...], name: str) -> Floats:
    """An array of finite, non-negative numbers."""
    need(array.dtype.str == "<f8" and array.shape == shape and bool((np.isfinite(array) & (array >= 0)).all()), name)
    return array


def _starts(array: NDArray[Any], counts: Sequence[int], codings: Sequence[Coding], name: str) -> tuple[Integers, ...]:
    """Where bins begin, one array for each column."""
    need(array.dtype.str == "<i8" and array.shape == (sum(counts),), name)
    found = np.split(array, np.cumsum(counts)[:-1])
    for starts, coding in zip(found, codings, strict=True):
        need(bool(starts[0] == 0 and (np.diff(starts) > 0).all() and starts[-1] < coding.size), name)
        need(coding.ordered or len(starts) == coding.size, name)
    return tuple(found)
