"""Headwater: synthetic data from a live stream, published again and again under one fixed privacy budget."""

from headwater.files import FileRefusedError
from headwater.measure.counters import BinaryCounter, HybridCounter, InhomogeneousCounter, SparseCounter
from headwater.measure.noise import SeededRunWarning
from headwater.publish.release import Release
from headwater.synthesizer import Synthesizer, pmm
from headwater.table.unit_cube import unit_cube

__version__ = "0.1.0"
__all__ = [
    "BinaryCounter",
    "FileRefusedError",
    "HybridCounter",
    "InhomogeneousCounter",
    "Release",
    "SeededRunWarning",
    "SparseCounter",
    "Synthesizer",
    "pmm",
    "unit_cube",
]
