"""How good are releases of wide tables? Headwater online, against what can be had offline.

    python -m benchmarks.tables [--seeds N] [--only TABLE …] [--keep] [--offline | --sealed]

Every release that was measured is kept in .cache, so an interrupted run goes on where it was. Figures of MST and AIM,
which take minutes each, are kept in docs/benchmarks/tables-kept.jsonl, with those of the version before and of the
sealed tables, which are run once.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace

from benchmarks.kept import ROOT, Kept
from benchmarks.pages import FOLDER, publish
from benchmarks.tables import page
from benchmarks.tables.cases import BEFORE, PLAIN, Case, narrow, offline_cases, online
from benchmarks.tables.data import DEVELOPMENT, SEALED
from benchmarks.tables.run import measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="runs of everything that is online")
    parser.add_argument("--only", nargs="+", metavar="TABLE", help="measure and keep only these tables; no page")
    parser.add_argument("--keep", action="store_true", help="use kept figures even if the code has changed since")
    parser.add_argument("--offline", action="store_true", help="only make figures of MST and AIM that are missing")
    parser.add_argument("--sealed", action="store_true", help="run on the sealed tables: once, when all is chosen")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    once = Kept(FOLDER / "tables-kept.jsonl", any_code=True)
    rows = measure(offline_cases(), once, make=arguments.offline)
    if arguments.offline:
        return
    rows += measure(online(SEALED, 3), once, make=arguments.sealed)
    before = [replace(case, method=BEFORE) for case in online(DEVELOPMENT, 2) if case.method == PLAIN]
    rows += measure(before, once, make=False)
    cases = [*online(DEVELOPMENT, arguments.seeds), *narrow(arguments.seeds)]
    wanted = [case for case in cases if not arguments.only or case.table in arguments.only]
    rows += measure(wanted, Kept(ROOT / ".cache" / "tables.jsonl", any_code=arguments.keep))
    if not arguments.only:
        places = {(case.table, case.t) for case in wanted if ":" in case.table}
        auto = {name: Case(name, t, "auto", 0).synthesizer("auto").mechanism for name, t in sorted(places)}
        publish(
            "tables",
            {"made": time.strftime("%Y-%m-%d"), "auto": auto, "rows": rows},
            page.page,
        )


if __name__ == "__main__":
    main()
