"""One number counted for ever: private running sums, usable on their own."""

from headwater.measure.counters.binary import BinaryCounter
from headwater.measure.counters.hybrid import HybridCounter
from headwater.measure.counters.inhomogeneous import InhomogeneousCounter
from headwater.measure.counters.protocol import Counter
from headwater.measure.counters.sparse import SparseCounter

__all__ = ["BinaryCounter", "Counter", "HybridCounter", "InhomogeneousCounter", "SparseCounter"]
