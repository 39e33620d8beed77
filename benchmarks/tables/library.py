"""Should a library fit the model? mbi (Private-PGM) beside ours, from the same denoised targets of one run.

    python -m benchmarks.tables.library [TABLE …]

Ours rakes drawn records to all measured pairs. mbi has an exact graphical model, so it gets the pairs of the tree and
as many others, the smallest first, as keep its junction tree below `LIMIT`. mbi needs JAX, so it has an environment of
its own, which is made when it is first needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import Any, cast

import numpy as np

from benchmarks.tables.cases import Case
from benchmarks.tables.data import Table, table
from benchmarks.tables.measures import marginal_errors
from benchmarks.tables.offline import ROOT
from benchmarks.tables.online import synthesizer_of
from headwater.public.marginals.codes import Codes, Measured
from headwater.public.marginals.model import MarginalsModel
from headwater.public.marginals.predict import LogLinear

RELEASES = {"births": 131_072, "diamonds": 53_940, "flights": 131_072}
MBI = "2.0.0"
ENVIRONMENT = ROOT / ".cache" / "mbi-venv"
WORKER = Path(__file__).with_name("mbi_worker.py")
LIMIT = 8.0
"""Megabytes."""
ITERATIONS = 2000
"""Of mbi's mirror descent. After 1,000 a tree of flights is still .03 from its targets, after 2,000 .01."""


def main() -> None:
    print("table       who   pairs  1-way  2-way   fit   again  draw (seconds of the processor)")
    for name in sys.argv[1:] or RELEASES:
        compare(table(name), RELEASES.get(name, len(table(name))))


def compare(whole: Table, t: int) -> None:
    """Fit, draw and measure with both, and print how many times as long a release takes with mbi."""
    synthesizer = synthesizer_of(Case(whole.name, t, 1.0, "marginals", 0))
    synthesizer.update(whole.frame.iloc[:t])
    measured = cast("Measured", synthesizer.measured())
    start = process_time()
    model = MarginalsModel.fit(measured, whole.schema, 0)
    estimated = process_time() - start
    distribution, start = LogLinear(model.estimate), process_time()
    joints = distribution.joints  # all that is between targets and drawing
    fit, start = process_time() - start, process_time()
    records = distribution.draw(t, np.random.default_rng(0))
    draw = process_time() - start
    show(whole.first(t), model, "ours", records, len(joints), (fit, fit, draw))
    found = fit_mbi(distribution, t)
    seconds = tuple(float(found[part]) for part in ("first", "again", "draw"))
    show(whole.first(t), model, "mbi", found["codes"].astype(np.int64), int(found["used"]), seconds)
    slower = [(estimated + one + seconds[2]) / (estimated + fit + draw) for one in seconds[:2]]
    print(f"  junction tree {found['megabytes']:.2g} MB; targets denoised in {estimated:.2f} s, for both; in all, a")
    print(
        f"  release takes {slower[0]:.0f} times as long with mbi, {slower[1]:.0f} times once it is compiled", flush=True
    )


def show(real: Table, model: MarginalsModel, who: str, records: Codes, pairs: int, seconds: tuple[float, ...]) -> None:
    points = model._points(records, np.random.default_rng(0))  # the same spread inside bins for both
    errors = marginal_errors(real.codes(), real.codes(real.schema.decode(points, "pandas")), real.sizes)
    costs = "  ".join(f"{one:5.2f}" for one in seconds)
    print(f"{real.name:11} {who:5} {pairs:5}  {errors.one_way:.4f} {errors.two_way:.4f} {costs}", flush=True)


def fit_mbi(distribution: LogLinear, t: int) -> Mapping[str, Any]:
    """What the worker found."""
    estimate, shares, tables = distribution.estimate, distribution.shares, distribution.joints
    rest = sorted(tables.keys() - set(estimate.tree), key=lambda pair: (tables[pair].size, pair))
    pairs = [*estimate.tree, *rest]
    given: dict[str, Any] = {f"one{c}": shares @ margin for c, margin in enumerate(estimate.margins)}
    given |= {f"two{number}": np.tensordot(shares, tables[pair], 1) for number, pair in enumerate(pairs)}
    given |= {"sizes": [len(grid) for grid in estimate.grids], "rows": t, "pairs": np.array(pairs)}
    given |= {"tree": len(estimate.tree), "limit": LIMIT, "iterations": ITERATIONS}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(source, **given)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [str(python()), "-W", "ignore", str(WORKER), str(source), str(target)]
        subprocess.run(command, check=True, env=environment | {"OMP_NUM_THREADS": "1"})
        with np.load(target) as found:
            return dict(found)


def python() -> Path:
    """The interpreter of mbi's environment, which is made when it is first needed."""
    found = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / ".done").exists():
        print(f"Setting up mbi in {ENVIRONMENT.relative_to(ROOT)} (once, a minute) ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)
        subprocess.run([str(found), "-m", "pip", "install", "--quiet", f"mbi=={MBI}"], check=True)
        (ENVIRONMENT / ".done").touch()
    return found


if __name__ == "__main__":
    main()
