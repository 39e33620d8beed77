"""The bits behind the noise, counted by bytes: 16 bytes at each address, each of 256 values."""

from __future__ import annotations

import numpy as np
from scipy import stats

from headwater.secret.digits import Words
from tests.statistics.tallies import Counts
from tests.support.noise_checks import binomial

BYTES = 16


def bytes_of(words: Words) -> Counts:
    """How often each byte of an address has each value, of shape ``(16, 256)``."""
    table = np.ascontiguousarray(words.astype("<u8", copy=False)).view(np.uint8).reshape(-1, BYTES)
    return np.array([np.bincount(table[:, place], minlength=256) for place in range(BYTES)])


def judge_bytes(counts: Counts) -> dict[str, list[float]]:
    """p-values of every byte, every bit, and every bit against the next in its byte."""
    n, value = int(counts[0].sum()), np.arange(256)
    ones = np.array([value >> bit & 1 for bit in range(8)])
    agree = np.array([1 ^ (value ^ value >> 1) >> bit & 1 for bit in range(7)])
    return {
        "bytes": [float(stats.chisquare(row).pvalue) for row in counts],
        "bits": [binomial(int(row @ one), n, 0.5) for row in counts for one in ones],
        "neighbouring bits": [binomial(int(row @ same), n, 0.5) for row in counts for same in agree],
    }
