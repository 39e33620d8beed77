"""How good are releases of wide tables? Headwater online, against what can be had offline or by rerunning it.

    python -m benchmarks.tables [--size quick | full] [--only TABLE …] [--keep] [--redraw] [--offline-only]

Writes tables.json, tables.md and pictures into docs/benchmarks. Every release that was measured is kept in .cache, so
an interrupted run goes on where it was, and after a change of one mechanism only that one is measured again. Figures of
MST and AIM, which take minutes each, are kept in docs/benchmarks/tables-offline.jsonl.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path

from benchmarks.tables.cases import BESIDE, FULL, QUICK, offline_cases
from benchmarks.tables.cost import measure_cost
from benchmarks.tables.offline import ROOT
from benchmarks.tables.page import page
from benchmarks.tables.pictures import draw
from benchmarks.tables.results import Numbers
from benchmarks.tables.run import Kept, measure_offline, measure_online
from benchmarks.tables.verdicts import requirements

SIZES = {size.name: size for size in (QUICK, FULL)}
RESULTS = ROOT / "docs" / "benchmarks"
KEPT, KEPT_OFFLINE = ROOT / ".cache" / "tables.jsonl", RESULTS / "tables-offline.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="quick", help="quick: minutes; full: hours of the processor")
    parser.add_argument("--seeds", type=int, help="so many runs of everything, instead of 1 (quick) or 3 (full)")
    parser.add_argument("--only", nargs="+", metavar="TABLE", help="only these tables")
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help="only these of Headwater's mechanisms")
    parser.add_argument("--keep", action="store_true", help="use kept figures even if the code has changed since")
    parser.add_argument("--redraw", action="store_true", help="measure nothing: page and pictures from tables.json")
    parser.add_argument("--offline-only", action="store_true", help="only make figures of MST and AIM that are missing")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    path = arguments.out / "tables.json"
    if arguments.redraw:
        numbers = Numbers.read(path)
    else:
        size = SIZES[arguments.size]
        size = replace(size, seeds=arguments.seeds or size.seeds)
        make = size.offline or arguments.offline_only
        offline, gave_up = measure_offline(offline_cases(), Kept(KEPT_OFFLINE, code=True), make=make)
        if arguments.offline_only:
            return
        wanted = [
            case
            for case in size.online()
            if (not arguments.only or case.table in arguments.only)
            and (not arguments.methods or case.method in (*BESIDE, *arguments.methods))
        ]
        online = measure_online(wanted, Kept(KEPT, code=not arguments.keep))
        numbers = Numbers(size.name, time.strftime("%Y-%m-%d"), [*online, *offline], measure_cost(), gave_up)
        arguments.out.mkdir(parents=True, exist_ok=True)
        numbers.write(path)
    asked = requirements(numbers)
    (arguments.out / "tables.md").write_text(page(numbers, asked))
    draw(numbers, arguments.out)
    for requirement in asked:
        print(f"{requirement.verdict:6} {requirement.what}: {requirement.measured} ({requirement.limit})")


if __name__ == "__main__":
    main()
