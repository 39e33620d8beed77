"""How accurate is cascade? Against the paper's mechanism, offline PMM, PMM rerun, and points drawn without any data.

    python -m benchmarks.accuracy [--size quick | full] [--jobs N] [--keep]

Every finished case is kept in .cache, so an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

import headwater as hw
from benchmarks import accuracy_page
from benchmarks.accuracy_cases import SEEDS, Setting, run, settings
from benchmarks.clock import seconds
from benchmarks.kept import Kept, fingerprint
from benchmarks.pages import publish

KEPT = Path(__file__).parents[1] / ".cache" / "accuracy.jsonl"


def entry(setting: Setting, seed: int) -> dict[str, Any]:
    """One case, measured now."""
    warnings.simplefilter("ignore", hw.SeededRunWarning)
    found: dict[str, Any] = {}
    return {"seconds": round(seconds(lambda: found.update(run(setting, seed))), 3)} | found


def measure(size: str, kept: Kept, jobs: int) -> dict[str, Any]:
    """All settings; what is not kept is run in several processes."""
    code = fingerprint()
    plan = [(setting, seed) for setting in settings(size) for seed in range(SEEDS[size][setting.d])]
    todo = {one.key(seed): (one, seed) for one, seed in plan if kept.find(one.key(seed), code) is None}
    with Progress(console=Console(stderr=True)) as progress, ProcessPoolExecutor(jobs) as processes:
        bar = progress.add_task("", total=sum(setting.weight for setting, _ in todo.values()))
        running = {processes.submit(entry, *case): case for case in todo.values()}
        for future in as_completed(running):
            setting, seed = running[future]
            kept.add(setting.key(seed), code, future.result())
            what = f"d = {setting.d}, ε = {setting.epsilon:g}, t = {setting.times[-1]:,}, {setting.stream}"
            progress.update(bar, description=f"{what}: {setting.mechanism}", advance=setting.weight)
    by_setting: dict[Setting, list[dict[str, Any]]] = {}
    for setting, seed in plan:
        by_setting.setdefault(setting, []).append(kept.find(setting.key(seed), code) or {})
    measured = [
        asdict(setting) | {"w1": [one["w1"] for one in found], "upper": [one["upper"] for one in found]}
        for setting, found in by_setting.items()
    ]
    took = sum(one["seconds"] for found in by_setting.values() for one in found)
    return {"size": size, "seconds": round(took), "measured": measured}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SEEDS, default="quick", help="quick: minutes; full: an hour of the processor")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="so many processes at once")
    parser.add_argument("--keep", action="store_true", help="use kept results even if the code has changed since")
    arguments = parser.parse_args()
    found = measure(arguments.size, Kept(KEPT, any_code=arguments.keep), arguments.jobs)
    publish("accuracy", found, accuracy_page.page, accuracy_page.draw)


if __name__ == "__main__":
    main()
