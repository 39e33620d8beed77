"""Measure what is not yet known, release by release, and keep it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any

from benchmarks.kept import Kept, fingerprint
from benchmarks.tables import offline
from benchmarks.tables.cases import EXPECTING, Case
from benchmarks.tables.data import Table, table
from headwater.evaluation import yardstick

Row = dict[str, Any]
"""The fields of a case, its errors, and seconds of the processor (one thread)."""


def measure(cases: list[Case], kept: Kept, *, make: bool = True) -> list[Row]:
    """What is kept of all cases and, if they are to be made, the others. What took too long is left out."""
    found = list[Row]()
    for _, group in groupby(cases, key=lambda case: replace(case, t=0)):
        run = list(group)
        code = "" if run[0].method in offline.METHODS else fingerprint()
        if make and any(kept.find(case.key, code) is None for case in run):
            one_by_one = run[0].method in (offline.HISTOGRAMS, *offline.METHODS)
            for case, row in beside(run) if one_by_one else releases(run):
                kept.add(case.key, code, asdict(case) | row)
                said = f"{row['bins_50']:.4f} / {row['boxes']:.4f}" if "boxes" in row else "gave up"
                print(f"{time.strftime('%H:%M:%S')} {case}: {said}", file=sys.stderr, flush=True)
        rows = [kept.find(case.key, code) or {} for case in run]
        found += [row for row in rows if "boxes" in row]
    return found


def releases(cases: list[Case]) -> Iterator[tuple[Case, Row]]:
    """One run of Headwater over a table, with a release at each time of the cases, which differ in nothing else."""
    whole, synthesizer = table(cases[0].table), cases[0].synthesizer()
    for case in cases:
        if case.method == EXPECTING:  # a plan of its own
            synthesizer = case.synthesizer()
        start = time.process_time()
        synthesizer.update(whole.frame.iloc[synthesizer.t : case.t])
        updated = time.process_time()
        points = synthesizer.release().points()
        cost = {"update": round(updated - start, 4), "release": round(time.process_time() - updated, 4)}
        yield case, errors(whole.first(case.t), yardstick.table_of(points, whole.columns)) | cost


def beside(cases: list[Case]) -> Iterator[tuple[Case, Row]]:
    """Releases of offline methods."""
    for case in cases:
        here = table(case.table).first(case.t)
        made = offline.release(here, case.epsilon, case.method, case.seed)
        yield case, {"gave_up": True} if made is None else errors(here, made[0]) | {"release": round(made[1], 4)}


def errors(real: Table, made: yardstick.Table) -> dict[str, float | None]:
    """The yardstick, rounded to be kept."""
    found = yardstick.yardstick(real.columns, real.values, made)
    return {name: None if error is None else round(error, 6) for name, error in found.items()}
