"""How accurate is cascade? Against the paper's mechanism, offline PMM, PMM rerun, and points drawn without any data.

    python -m benchmarks.accuracy [--size quick | full] [--jobs N] [--keep] [--redraw]

Writes the numbers (accuracy.json), pictures (accuracy-*.png) and a page made from the numbers (accuracy.md) into
docs/benchmarks. Every finished case is remembered in .cache, so an interrupted run goes on where it was, and after a
change of one mechanism only that one is measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from time import process_time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import headwater as hw
from benchmarks.accuracy_cases import FULL, QUICK, Setting, Size, key, run, seeds, settings
from benchmarks.accuracy_numbers import Measured, Numbers
from benchmarks.accuracy_page import page
from benchmarks.accuracy_pictures import draw
from benchmarks.accuracy_verdicts import requirements

SIZES = {size.name: size for size in (QUICK, FULL)}
ROOT = Path(__file__).parents[1]
RESULTS, MEMORY = ROOT / "docs" / "benchmarks", ROOT / ".cache" / "accuracy.jsonl"


def remembered(code: bool) -> dict[str, dict[str, Any]]:
    """What earlier runs found; without regard to the code, the newest."""
    if not MEMORY.exists():
        return {}
    entries = [json.loads(line) for line in MEMORY.read_text().splitlines() if line.endswith("}")]
    return {one["key"] if code else one["key"].rpartition("/")[0]: one for one in entries}


def entry(name: str, setting: Setting, seed: int) -> dict[str, Any]:
    """One case, measured now, as it is remembered by its name."""
    warnings.simplefilter("ignore", hw.SeededRunWarning)
    start = process_time()
    result = run(setting, seed)
    return {"key": name, **asdict(result), "seconds": round(process_time() - start, 3)}


def measure(size: Size, keep: bool, jobs: int) -> Numbers:
    plan = [(setting, seed) for setting in settings(size) for seed in range(seeds(size, setting))]
    known = remembered(code=not keep)
    wanted = [key(setting, seed, code=not keep) for setting, seed in plan]
    columns = (
        TextColumn("{task.description:52}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    MEMORY.parent.mkdir(exist_ok=True)
    todo = {name: case for name, case in zip(wanted, plan, strict=True) if name not in known}
    with (
        Progress(*columns, console=Console(stderr=True)) as progress,
        MEMORY.open("a") as memory,
        ProcessPoolExecutor(jobs) as processes,
    ):
        bar = progress.add_task("", total=sum(setting.weight for setting, _ in todo.values()))
        running = {processes.submit(entry, key(*case, code=True), *case): name for name, case in todo.items()}
        for future in as_completed(running):
            name = running[future]
            known[name] = future.result()
            memory.write(json.dumps(known[name]) + "\n")
            memory.flush()
            setting, _ = todo[name]
            what = f"d = {setting.d}, ε = {setting.epsilon:g}, t = {setting.times[-1]:,}, {setting.stream}"
            progress.update(bar, description=f"{what}: {setting.mechanism}")
            progress.advance(bar, setting.weight)
    found: dict[Setting, list[dict[str, Any]]] = {}
    for name, (setting, _) in zip(wanted, plan, strict=True):
        found.setdefault(setting, []).append(known[name])
    measured = [
        Measured(s, [one["w1"] for one in entries], [one["spread"] for one in entries]) for s, entries in found.items()
    ]
    return Numbers(size.name, sum(known[name]["seconds"] for name in set(wanted)), measured)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="quick", help="quick: minutes; full: an hour of the processor")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="so many processes at once")
    parser.add_argument("--keep", action="store_true", help="use remembered results even if the code has changed since")
    parser.add_argument(
        "--redraw", action="store_true", help="measure nothing: make page and pictures from the numbers"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", hw.SeededRunWarning)
    path = arguments.out / "accuracy.json"
    if arguments.redraw:
        numbers = Numbers.read(path)
    else:
        numbers = measure(SIZES[arguments.size], arguments.keep, arguments.jobs)
        arguments.out.mkdir(parents=True, exist_ok=True)
        numbers.write(path)
    asked = requirements(numbers)
    (arguments.out / "accuracy.md").write_text(page(numbers, asked, SIZES[numbers.size]))
    draw(numbers, arguments.out)
    for requirement in asked:
        print(f"{requirement.verdict:6} {requirement.what}: {requirement.measured} ({requirement.limit})")


if __name__ == "__main__":
    main()
