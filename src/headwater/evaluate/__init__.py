"""How far a release is from the data. Everything here looks at raw data: NO RESULT IS PRIVATE."""

from headwater.evaluate.w1 import W1, w1, w1_grid

__all__ = ["W1", "w1", "w1_grid"]
