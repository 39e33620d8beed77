"""Counters with a planted fault: too little noise."""

from __future__ import annotations

from headwater.secret.counters import BinaryCounter, SparseCounter
from headwater.secret.noise import NoiseStream


class ForgetsALength(BinaryCounter):
    """Noise for one block length fewer than there are."""

    def __init__(self, horizon: int, *, epsilon: float, noise: NoiseStream) -> None:
        super().__init__(horizon, epsilon=epsilon, noise=noise)
        self.scale *= (self.lengths - 1) / self.lengths


class HalvesThresholdNoise(SparseCounter):
    """The threshold gets half the noise it should."""

    def draw_threshold(self) -> int:
        scale, self.scale = self.scale, self.scale / 2
        threshold = super().draw_threshold()
        self.scale = scale
        return threshold


class HalvesTestNoise(SparseCounter):
    """Every test gets half the noise it should."""

    def add(self, increment: int) -> None:
        scale, self.scale = self.scale, self.scale / 2
        super().add(increment)
        self.scale = scale
