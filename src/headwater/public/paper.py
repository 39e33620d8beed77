"""What a release of the paper's mechanism or of PMM holds, and what is proved of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from headwater.public.budget import Budget
from headwater.public.cells import CellCounts, CellModel, MeasuredCells
from headwater.public.partition import Cells, Integers, Partition
from headwater.public.protocol import AnySchema, Arrays, ErrorBound, Header, Kept, Span, State


def cell_budget(depth: int, level: int, dimension: int, epsilon: float) -> float:
    if dimension == 1:
        return 3 / math.pi**2 * epsilon / (depth + 1) ** 2
    exponent = (1 - 1 / dimension) / 2
    share = (1 - math.exp2(-exponent)) / 2 * (1 - 2.0**-40)  # the last factor keeps rounding from ever overdrawing
    return share * epsilon * math.exp2((depth - level) * exponent)


def halving(parent: Integers, left: Integers, right: Integers, odd: Integers) -> Integers:
    gap = parent - left - right
    missing = np.maximum(gap, 0)
    excess = np.maximum(-gap, 0)
    taken = np.minimum((excess + odd) // 2, left)
    taken = np.maximum(taken, excess - right)  # what the right child cannot give, the left one gives
    result: Integers = left + (missing + odd) // 2 - taken
    return result


@dataclass(frozen=True)
class Layer:
    """Consistent counts of the cells of one depth."""

    depth: int
    cells: Cells
    counts: Integers

    @staticmethod
    def root(t: int) -> Layer:
        held = [t] if t else []
        return Layer(0, np.zeros(len(held), dtype=np.uint64), np.array(held, dtype=np.int64))

    def children(self) -> Cells:
        first = self.cells << np.uint64(1)
        return np.stack([first, first | np.uint64(1)], axis=1).reshape(-1)

    def refine(self, noisy: CellCounts, rng: np.random.Generator, partition: Partition) -> Layer:
        """The next depth, out of noisy counts of `children`."""
        halves = np.maximum(noisy.counts, 0).reshape(-1, 2)
        odd = rng.integers(0, 2, size=len(halves))
        left = halving(self.counts, halves[:, 0], halves[:, 1], odd)
        share = partition.shares(self.cells, self.depth)
        left = np.where(share == 1, self.counts, np.where(share == 0, 0, left))
        counts = np.stack([left, self.counts - left], axis=1).reshape(-1)
        held = counts > 0
        return Layer(noisy.depth, noisy.cells[held], counts[held])


@dataclass(frozen=True)
class Measured(MeasuredCells):
    """What crosses the trust boundary: the noisy counts that were asked for, and the whole counts they lead to."""

    counts: Layer

    @classmethod
    def of(cls, kept: Kept, schema: AnySchema, budget: Budget, t: int) -> Self:
        found: Self = kept[Span(0, t)]
        return found

    @staticmethod
    def pack(kept: Kept) -> State:
        parts = {span: (*one.noisy, one.counts) for span, one in kept.items()}
        layout = [[span.end, [[part.depth, len(part.cells)] for part in of_span]] for span, of_span in parts.items()]
        every = [part for of_span in parts.values() for part in of_span]
        return {"layout": layout}, {
            "cells": np.concatenate([part.cells for part in every]),
            "counts": np.concatenate([part.counts for part in every]),
        }

    @staticmethod
    def unpack(header: Header, arrays: Arrays, schema: AnySchema) -> Kept:
        cells, counts, found = arrays["cells"], arrays["counts"], dict[Span, Measured]()
        for t, layout in header["layout"]:
            parts = list[tuple[int, Cells, Integers]]()
            for depth, size in layout:
                parts.append((depth, cells[:size], counts[:size]))
                cells, counts = cells[size:], counts[size:]
            noisy = tuple(CellCounts(*part) for part in parts[:-1])
            found[Span(0, t)] = Measured(t, schema.partition, noisy, Layer(*parts[-1]))
        return found


def measure(
    noisy_counts: Callable[[int, Cells], CellCounts],
    t: int,
    depth: int,
    partition: Partition,
    seed: int,
) -> Measured:
    rng = np.random.default_rng([seed, 1])  # apart from the generator that places the points
    layer, asked = Layer.root(t), list[CellCounts]()
    for level in range(1, depth + 1):
        asked.append(noisy_counts(level, layer.children()))
        layer = layer.refine(asked[-1], rng, partition)
    return Measured(t, partition, tuple(asked), layer)


class PaperModel(CellModel):
    """Whole counts of the cells of one depth (Algorithm 4)."""

    @classmethod
    def fit(cls, measured: Measured, schema: AnySchema, seed: int) -> Self:
        layer = measured.counts
        return cls(schema.partition, layer.cells, np.full(len(layer.cells), layer.depth), layer.counts)

    @staticmethod
    def rate(mechanism: str, epsilon: float, t: int, dimension: int) -> ErrorBound:
        if mechanism == "pmm":
            source = "He, Vershynin, Zhu 2023"
            if dimension == 1:
                rate = max(math.log(epsilon * t), 1.0) ** 2 / (epsilon * t)
                return ErrorBound(rate, "log²(εt)/(εt)", None, 1 / epsilon, source)
            return ErrorBound((epsilon * t) ** (-1 / dimension), "(εt)^(-1/d)", None, 1 / epsilon, source)
        if dimension == 1:
            rate = max(math.log(epsilon * t), 1.0) ** 3 * max(math.log(t), 1.0) ** 1.5 / (epsilon * t)
            return ErrorBound(rate, "log³(εt)·log^1.5(t)/(εt)", None, math.e / epsilon, "theorem 1.1 of the paper")
        enough = math.exp(math.log(1 / epsilon + 1) ** 2) + math.e / epsilon
        rate = max(math.log(t), 1.0) * (epsilon * t) ** (-1 / dimension)
        return ErrorBound(rate, "log(t)·(εt)^(-1/d)", None, enough, "theorem 1.1 of the paper")


MODEL = PaperModel
MEASURED = Measured
