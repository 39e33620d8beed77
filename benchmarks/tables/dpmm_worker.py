"""One offline release of dpmm, in dpmm's own environment: ``python dpmm_worker.py IN.npz OUT.npz``.

IN holds ``codes`` (n × d), ``sizes`` (d), ``method`` ("mst" or "aim"), ``epsilon``, ``delta``, ``seed`` and ``limit``
(seconds of the processor until it is given up); OUT gets ``codes`` of as many synthetic records and the ``seconds`` of
the processor that they took. Nothing of Headwater is imported here, because dpmm needs older libraries.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import numpy as np


class _Diagonal:
    """A diagonal matrix, as far as fitting needs it."""

    def __init__(self, weights: Any) -> None:  # noqa: ANN401
        self.weights, self.shape, self.T = weights, (len(weights), len(weights)), self

    def __matmul__(self, vector: Any) -> Any:  # noqa: ANN401
        return self.weights * vector


def _diagonal(matrix: Any, size: int) -> _Diagonal:  # noqa: ANN401
    if isinstance(matrix, _Diagonal):
        return matrix
    return _Diagonal(matrix.diagonal() if hasattr(matrix, "diagonal") else np.ones(size))


def hasten() -> None:
    """Replace operations on which dpmm's fitting spends two thirds of its time by equal ones with less overhead."""
    import dpmm.models.base.mbi.factor as module
    from dpmm.models.base.mbi.inference import FactoredInference

    factor, loss = module.Factor, FactoredInference._marginal_loss
    add, multiply, expand = factor.__add__, factor.__mul__, factor.expand

    def logsumexp(values: Any, axis: Any = None) -> Any:  # noqa: ANN401
        top = values.max(axis=axis, keepdims=True)
        total = np.exp(values - top).sum(axis=axis, keepdims=True)
        found = np.squeeze(np.log(total) + top, axis=axis)
        return float(found) if axis is None else found

    def fast_expand(self: Any, domain: Any) -> Any:  # noqa: ANN401
        return self if self.domain.attrs == domain.attrs else expand(self, domain)

    def fast_add(self: Any, other: Any) -> Any:  # noqa: ANN401
        if isinstance(other, factor) and self.domain.attrs == other.domain.attrs:
            return factor(self.domain, self.values + other.values)
        return add(self, other)

    def fast_multiply(self: Any, other: Any) -> Any:  # noqa: ANN401
        if isinstance(other, factor) and self.domain.attrs == other.domain.attrs:
            return factor(self.domain, self.values * other.values)
        return multiply(self, other)

    def fast_loss(self: Any, marginals: Any, metric: Any = None) -> Any:  # noqa: ANN401
        for clique, group in self.groups.items():  # MST measures with sparse diagonals, AIM with its own Identity
            if any(not isinstance(one[0], _Diagonal) for one in group):
                self.groups[clique] = [(_diagonal(matrix, len(y)), y, noise, of) for matrix, y, noise, of in group]
        return loss(self, marginals, metric)

    module.logsumexp = logsumexp
    factor.expand, factor.__add__, factor.__mul__ = fast_expand, fast_add, fast_multiply
    FactoredInference._marginal_loss = fast_loss


def main() -> None:
    """Read the codes, fit, and write as many synthetic ones."""
    import pandas as pd
    from dpmm.models.aim import AIMGM
    from dpmm.models.mst import MSTGM

    hasten()
    given = np.load(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (int(given["limit"]), int(given["limit"]) + 5))
    names = [f"c{i}" for i in range(len(given["sizes"]))]
    epsilon, delta = float(given["epsilon"]), float(given["delta"])
    model: dict[str, Any] = {"mst": MSTGM, "aim": AIMGM}
    frame = pd.DataFrame(given["codes"].astype(int), columns=names)
    start, random = time.process_time(), np.random.RandomState(int(given["seed"]))
    domain = dict(zip(names, given["sizes"].tolist()))  # noqa: B905 - both have one entry for each column
    fitted = model[str(given["method"])](epsilon=epsilon, delta=delta, domain=domain, random_state=random, n_jobs=1)
    fitted.fit(frame)
    made = fitted.generate(n_records=len(frame))[names].to_numpy()
    np.savez_compressed(sys.argv[2], codes=made.astype(np.uint16), seconds=time.process_time() - start)


if __name__ == "__main__":
    main()
