"""One model of mbi, in an environment of its own: ``python mbi_worker.py IN.npz OUT.npz``.

IN holds ``sizes`` (bins of each column), ``rows``, ``one0`` … (shares of one-way marginals), ``pairs`` (n × 2, those of
the tree first), ``tree`` (how many those are), ``two0`` … (their shares), ``limit`` (megabytes of a junction tree) and
``iterations``. OUT gets ``codes`` (columns × rows), how many pairs the model has (``used``), its ``megabytes``, and
seconds of the processor: ``first`` (a fit with compilation), ``again`` (the same fit compiled) and ``draw``.
"""

from __future__ import annotations

import sys
from time import process_time
from typing import Any

import numpy as np


def main() -> None:
    """Read the targets, fit, draw, and write the records."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from mbi import Domain, LinearMeasurement
    from mbi.estimation import MirrorDescent
    from mbi.junction_tree import hypothetical_model_size

    given = np.load(sys.argv[1])
    sizes, rows, pairs = given["sizes"].tolist(), int(given["rows"]), given["pairs"].astype(str).tolist()
    names = [str(column) for column in range(len(sizes))]
    domain = Domain(names, sizes)
    targets = {(name,): given[f"one{name}"] for name in names}
    for number, pair in enumerate(pairs):
        more = [*targets, tuple(pair)]
        if number < int(given["tree"]) or hypothetical_model_size(domain, more) <= float(given["limit"]):
            targets[tuple(pair)] = given[f"two{number}"]
    # All targets count alike: weighted by their expected errors the fit is no better, and takes longer to converge.
    measured = [LinearMeasurement(rows * shares.ravel(), clique, stddev=1.0) for clique, shares in targets.items()]

    def fit() -> tuple[Any, float]:
        start = process_time()
        model = MirrorDescent().estimate(domain, measured, known_total=rows, iters=int(given["iterations"]))
        jax.block_until_ready(model.marginals)
        return model, process_time() - start

    model, first = fit()
    model, again = fit()
    np.random.seed(0)  # noqa: NPY002 - what mbi draws with
    model.synthetic_data(rows)  # compiles
    start = process_time()
    made = model.synthetic_data(rows).to_dict()
    draw = process_time() - start
    codes = np.array([made[name] for name in names]).astype(np.uint16)
    used, size = len(targets) - len(names), hypothetical_model_size(domain, list(targets))
    np.savez(sys.argv[2], codes=codes, used=used, megabytes=size, first=first, again=again, draw=draw)


if __name__ == "__main__":
    main()
