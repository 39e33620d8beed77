"""How good are releases of wide tables? Headwater online, against what can be had offline or by rerunning it.

    python -m benchmarks.tables [--size quick | full] [--only TABLE …] [--keep] [--redraw] [--offline-only]

Writes tables.json, tables.md and pictures into docs/benchmarks. Every release that was measured is kept in .cache, so an
interrupted run goes on where it was, and after a change of one mechanism only that one is measured again. Figures of
MST and AIM, which take minutes each, are kept in docs/benchmarks/tables-offline.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections import defaultdict
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy: times are those of one thread
    os.environ.setdefault(threads, "1")

from benchmarks.tables.cases import FULL, INDEPENDENT, OFFLINE, QUICK, Case, Size, offline_cases
from benchmarks.tables.cost import Cost, measure_cost
from benchmarks.tables.numbers import Numbers
from benchmarks.tables.offline import DPMM, ROOT
from benchmarks.tables.online import Row, UnknownMechanismError, beside, online, synthesizer_of
from benchmarks.tables.page import page
from benchmarks.tables.pictures import draw
from benchmarks.tables.verdicts import requirements

SIZES = {size.name: size for size in (QUICK, FULL)}
RESULTS = ROOT / "docs" / "benchmarks"
KEPT, KEPT_OFFLINE = ROOT / ".cache" / "tables.jsonl", RESULTS / "tables-offline.jsonl"


class Memory:
    """Measured releases, in a file to which one line is added for each."""

    def __init__(self, path: Path, *, code: bool) -> None:
        self.path, self.code, self.rows = path, code, dict[str, dict[str, Any]]()
        for line in path.read_text().splitlines() if path.exists() else ():
            if line.endswith("}"):
                row = json.loads(line)
                self.rows[row["key"] if code else Case(*(row[n] for n in Case.__dataclass_fields__)).key(code=False)] = row

    def find(self, case: Case) -> dict[str, Any] | None:
        return self.rows.get(case.key(code=self.code))

    def add(self, case: Case, row: dict[str, Any]) -> None:
        row = {"key": case.key()} | row
        self.rows[case.key(code=self.code)] = row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def measure_offline(cases: list[Case], memory: Memory, *, make: bool) -> list[Row]:
    """Figures of MST and AIM: the kept ones, and, if they are to be made, the others."""
    found = []
    for case in cases:
        row = memory.find(case)
        if row is None and make:
            result = beside(case)
            made = time.strftime("%Y-%m-%d")
            row = {**vars(case), "gave_up": True, "made": made} if result is None else result.to_dict() | {"made": made}
            memory.add(case, row)
            _tell(case, result)
        if row is not None and not row.get("gave_up"):
            found.append(Row.from_dict(row))
    return found


def measure_online(cases: list[Case], memory: Memory) -> list[Row]:
    """Releases of Headwater and of independent marginals, run by run."""
    found, unknown = list[Row](), set[str]()
    runs = groupby(cases, key=lambda case: replace(case, t=0))
    for run, group in runs:
        wanted = list(group)
        try:
            if run.method == INDEPENDENT:
                for case in wanted:
                    if memory.find(case) is None:
                        result = beside(case)
                        assert result is not None  # noqa: S101 - only dpmm takes too long
                        memory.add(case, result.to_dict())
            elif run.method not in unknown:
                _run(wanted, memory)
            found += [Row.from_dict(row) for row in map(memory.find, wanted) if row is not None]
        except UnknownMechanismError:
            unknown.add(run.method)
            print(f"skipped: this version has no mechanism {run.method!r}", file=sys.stderr)
    return found


def _run(cases: list[Case], memory: Memory) -> None:
    if all(memory.find(case) for case in cases):
        return
    chosen = synthesizer_of(cases[0]).mechanism
    if chosen != cases[0].method:  # auto: with the same seed its releases are those of the mechanism that it chose
        others = [replace(case, method=chosen) for case in cases]
        _run(others, memory)
        for case, other in zip(cases, others, strict=True):
            row = memory.find(other)
            assert row is not None  # noqa: S101 - just measured
            memory.add(case, {name: value for name, value in row.items() if name != "key"} | {"method": case.method})
        return
    for row in online(cases):
        memory.add(row.case, row.to_dict())
        _tell(row.case, row)


def _tell(case: Case, row: Row | None) -> None:
    what = f"{time.strftime('%H:%M:%S')} {case.table} {case.t:,} ε = {case.epsilon:g} {case.method} seed {case.seed}: "
    errors = f"{row.errors.one_way:.4f} / {row.errors.two_way:.4f}" if row else "gave up"
    print(what + errors, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="quick", help="quick: minutes; full: hours of the processor")
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
        offline = measure_offline(
            offline_cases(), Memory(KEPT_OFFLINE, code=True), make=size.offline or arguments.offline_only
        )
        if arguments.offline_only:
            return
        wanted = [
            case
            for case in size.online()
            if (not arguments.only or case.table in arguments.only)
            and (not arguments.methods or case.method in (INDEPENDENT, *arguments.methods))
        ]
        rows = measure_online(wanted, Memory(KEPT, code=not arguments.keep))
        numbers = Numbers(size.name, time.strftime("%Y-%m-%d"), [*rows, *offline], measure_cost())
        arguments.out.mkdir(parents=True, exist_ok=True)
        numbers.write(path)
    asked = requirements(numbers)
    (arguments.out / "tables.md").write_text(page(numbers, asked))
    draw(numbers, arguments.out)
    for requirement in asked:
        print(f"{requirement.verdict:6} {requirement.what}: {requirement.measured} ({requirement.limit})")


if __name__ == "__main__":
    main()
