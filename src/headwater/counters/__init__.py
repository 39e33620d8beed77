"""One number counted for ever: private running sums, usable on their own."""

from headwater.counters.binary import BinaryCounter
from headwater.counters.hybrid import HybridCounter
from headwater.counters.inhomogeneous import InhomogeneousCounter
from headwater.counters.protocol import Counter
from headwater.counters.sparse import SparseCounter

__all__ = ["BinaryCounter", "Counter", "HybridCounter", "InhomogeneousCounter", "SparseCounter"]
