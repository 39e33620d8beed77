"""Measure what is not yet known, release by release, and keep it."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, fields, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.tables.cases import BESIDE, Case
from benchmarks.tables.online import Row, UnknownMechanismError, beside, online, synthesizer_of


class Kept:
    """Measured releases, in a file to which one line is added for each.

    Parameters
    ----------
    path
        The file, of JSON lines.
    code
        Whether figures that other code has made are left out.
    """

    def __init__(self, path: Path, *, code: bool) -> None:
        self.path, self.code, self._rows = path, code, dict[str, dict[str, Any]]()
        for line in path.read_text().splitlines() if path.exists() else ():
            if line.endswith("}"):  # the last one may be cut off
                row = json.loads(line)
                case = Case(**{field.name: row[field.name] for field in fields(Case)})
                self._rows[row["key"] if code else case.key(code=False)] = row

    def find(self, case: Case) -> dict[str, Any] | None:
        """What was measured, if it was."""
        return self._rows.get(case.key(code=self.code))

    def add(self, case: Case, measured: dict[str, Any]) -> None:
        """Keep what was measured now."""
        row = {"key": case.key()} | measured
        self._rows[case.key(code=self.code)] = row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def measure_offline(cases: list[Case], kept: Kept, *, make: bool) -> tuple[list[Row], list[Case]]:
    """Figures of MST and AIM, the kept ones and, if they are to be made, the others; and what was given up."""
    found, gave_up = list[Row](), list[Case]()
    for case in cases:
        known = kept.find(case)
        if known is None and make:
            row = beside(case)
            known = asdict(case) | {"gave_up": True} if row is None else row.to_dict()
            kept.add(case, known | {"made": time.strftime("%Y-%m-%d")})
            _tell(case, row)
        if known is not None and known.get("gave_up"):
            gave_up.append(case)
        elif known is not None:
            found.append(Row.from_dict(known))
    return found, gave_up


def measure_online(cases: list[Case], kept: Kept) -> list[Row]:
    """Releases of Headwater and of independent marginals, run by run; mechanisms that do not exist are left out."""
    found, unknown = list[Row](), set[str]()
    for run, group in groupby(cases, key=lambda case: replace(case, t=0)):
        wanted = list(group)
        try:
            if run.method not in unknown:
                _run(wanted, kept)
        except UnknownMechanismError:
            unknown.add(run.method)
            print(f"skipped: this version has no mechanism {run.method!r}", file=sys.stderr)
        found += [Row.from_dict(row) for row in map(kept.find, wanted) if row is not None]
    return found


def _run(cases: list[Case], kept: Kept) -> None:
    if all(kept.find(case) for case in cases):
        return
    method = cases[0].method
    if method in BESIDE:
        for case in cases:
            made = beside(case)
            assert made is not None  # noqa: S101 - only dpmm takes too long
            kept.add(case, made.to_dict())
        return
    chosen = synthesizer_of(cases[0]).mechanism
    if chosen != cases[0].mechanism:  # auto: with the same seed its releases are those of the mechanism that it chose
        others = [replace(case, method=chosen) for case in cases]
        _run(others, kept)
        for case, other in zip(cases, others, strict=True):
            known = kept.find(other)
            assert known is not None  # noqa: S101 - just measured
            kept.add(case, {name: value for name, value in known.items() if name != "key"} | {"method": method})
        return
    for row in online(cases):
        kept.add(row.case, row.to_dict())
        _tell(row.case, row)


def _tell(case: Case, row: Row | None) -> None:
    what = f"{time.strftime('%H:%M:%S')} {case.table} {case.t:,} ε = {case.epsilon:g} {case.method} seed {case.seed}: "
    errors = f"{row.errors.one_way:.4f} / {row.errors.two_way:.4f}" if row else "gave up"
    print(what + errors, file=sys.stderr, flush=True)
