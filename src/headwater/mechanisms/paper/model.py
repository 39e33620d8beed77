"""What a release of the paper's mechanism holds, and what is proved of it."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from headwater.mechanisms.accuracy import ErrorBound
from headwater.mechanisms.cell_model import CellModel
from headwater.mechanisms.paper.consistency import Measured
from headwater.mechanisms.protocol import AnySchema


class PaperModel(CellModel):
    """Whole counts of the cells of one depth (Algorithm 4)."""

    @classmethod
    def fit(cls, measured: Measured, schema: AnySchema, seed: int) -> Self:
        """The cells that hold something; they were made consistent while they were asked for."""
        layer = measured.counts
        return cls(schema.partition, layer.cells, np.full(len(layer.cells), layer.depth), layer.counts)

    @staticmethod
    def rate(epsilon: float, t: int, dimension: int) -> ErrorBound:
        """The rate of W1 that Theorem 1.1 of the paper proves."""
        if dimension == 1:
            rate = max(math.log(epsilon * t), 1.0) ** 3 * max(math.log(t), 1.0) ** 1.5 / (epsilon * t)
            return ErrorBound(rate, "log³(εt)·log^1.5(t)/(εt)", None, math.e / epsilon, "theorem 1.1 of the paper")
        enough = math.exp(math.log(1 / epsilon + 1) ** 2) + math.e / epsilon
        rate = max(math.log(t), 1.0) * (epsilon * t) ** (-1 / dimension)
        return ErrorBound(rate, "log(t)·(εt)^(-1/d)", None, enough, "theorem 1.1 of the paper")


MODEL = PaperModel
