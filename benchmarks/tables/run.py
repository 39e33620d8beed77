"""Measure what is not yet known, release by release, and keep it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any

import numpy as np

from benchmarks.kept import Kept, fingerprint
from benchmarks.tables import offline
from benchmarks.tables.cases import EXPECTING, Case
from benchmarks.tables.data import table
from benchmarks.tables.measures import errors

Row = dict[str, Any]
"""The fields of a case, its errors, seconds of the processor (one thread), and the error that it expected."""


def measure(cases: list[Case], kept: Kept, *, make: bool = True) -> list[Row]:
    """What is kept of all cases and, if they are to be made, the others. What took too long is left out."""
    found = list[Row]()
    for _, group in groupby(cases, key=lambda case: replace(case, t=0)):
        run = list(group)
        online = run[0].method not in (*offline.BESIDE, *offline.METHODS)
        code = "" if run[0].method in offline.METHODS else fingerprint()
        if make and any(kept.find(case.key, code) is None for case in run):
            for case, row in releases(run) if online else beside(run, kept, code):
                kept.add(case.key, code, asdict(case) | row)
                said = f"{row['one_way']:.4f} / {row['two_way']:.4f}" if "one_way" in row else "gave up"
                print(f"{time.strftime('%H:%M:%S')} {case}: {said}", file=sys.stderr, flush=True)
        rows = [kept.find(case.key, code) or {} for case in run]
        found += [row for row in rows if "two_way" in row]
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
        release = synthesizer.release()
        made = release.sample(kind="pandas")
        drawn = time.process_time()
        expected = release.expected_error()
        known = (float(expected.typical), float(expected.upper)) if "two-way" in expected.measure else None
        cost = {"update": round(updated - start, 4), "release": round(drawn - updated, 4), "expected": known}
        yield case, errors(whole.first(case.t), made) | cost


def beside(cases: list[Case], kept: Kept, code: str) -> Iterator[tuple[Case, Row]]:
    """Releases of offline methods that are not kept."""
    for case in cases:
        if kept.find(case.key, code) is None:
            here, start = table(case.table).first(case.t), time.process_time()
            codes, seconds = offline.release(here, case.epsilon, case.method, case.seed)
            if codes is None:
                yield case, {"gave_up": True}
                continue
            made = here.decode(codes, np.random.default_rng(case.seed))
            took = time.process_time() - start if seconds is None else seconds
            yield case, errors(here, made) | {"release": round(took, 4)}
