"""How good are releases of wide tables? Headwater online, against what can be had offline.

    python -m benchmarks.tables [--size quick | full] [--only TABLE …] [--keep] [--offline-only]

Every release that was measured is kept in .cache, so an interrupted run goes on where it was. Figures of MST and AIM,
which take minutes each, are kept in docs/benchmarks/tables-offline.jsonl.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace

from benchmarks.kept import ROOT, Kept
from benchmarks.pages import FOLDER, publish
from benchmarks.tables import page
from benchmarks.tables.cases import FULL, QUICK, Case, offline_cases
from benchmarks.tables.cost import measure_costs
from benchmarks.tables.run import measure

SIZES = {size.name: size for size in (QUICK, FULL)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="quick", help="quick: minutes; full: hours of the processor")
    parser.add_argument("--seeds", type=int, help="so many runs of everything, instead of 1 (quick) or 3 (full)")
    parser.add_argument("--only", nargs="+", metavar="TABLE", help="measure and keep only these tables; no page")
    parser.add_argument("--keep", action="store_true", help="use kept figures even if the code has changed since")
    parser.add_argument("--offline-only", action="store_true", help="only make figures of MST and AIM that are missing")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    size = SIZES[arguments.size]
    size = replace(size, seeds=arguments.seeds or size.seeds)
    make = size.offline or arguments.offline_only
    rows = measure(offline_cases(), Kept(FOLDER / "tables-offline.jsonl"), make=make)
    if arguments.offline_only:
        return
    wanted = [case for case in size.online() if not arguments.only or case.table in arguments.only]
    rows = measure(wanted, Kept(ROOT / ".cache" / "tables.jsonl", any_code=arguments.keep)) + rows
    if not arguments.only:
        auto = {case.table: Case(case.table, case.t, 1.0, "auto", 0).synthesizer("auto").mechanism for case in wanted}
        found = {"size": size.name, "made": time.strftime("%Y-%m-%d"), "auto": auto, "costs": measure_costs()}
        publish("tables", found | {"rows": rows}, page.page, page.draw)


if __name__ == "__main__":
    main()
