"""How far a release is from the data. Everything here looks at raw data: NO RESULT IS PRIVATE."""

from headwater.evaluation.evaluation import Evaluation, evaluate
from headwater.evaluation.w1 import W1, w1

__all__ = ["W1", "Evaluation", "evaluate", "w1"]
