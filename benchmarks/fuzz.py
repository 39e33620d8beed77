"""Fuzz everything that parses, on all processors: does anything but documented errors come out?

python -m benchmarks.fuzz                       # a million inputs; writes docs/benchmarks/fuzz.md and fuzz.json
python -m benchmarks.fuzz --again               # the targets with findings once more, after a repair
python -m benchmarks.fuzz --seconds 60          # as many as there is time for; writes nothing
python -m benchmarks.fuzz --target CSV --seed 7 # one target, other inputs

Targets and mutations are in tests/fuzz. An input is fixed by its target, the seed and its number. One that a parser
fails on is written to out/fuzz, and becomes a test once the parser is repaired.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs" / "benchmarks"
SLOW = 10.0  # seconds: longer than any input of a few hundred bytes should take
MEMORY = 8 << 30  # bytes: whoever asks for more has believed a number in a file
BATCH = 200  # inputs at a time


@dataclass(frozen=True)
class Work:
    """Inputs of one target: their numbers, from the first to before the last."""

    target: int
    first: int
    last: int


@dataclass
class Done:
    """What came of all inputs so far."""

    executions: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    findings: dict[tuple[str, str], int] = field(default_factory=dict)
    """The number of the first input, by target and by what went wrong."""
    repaired: list[dict[str, Any]] = field(default_factory=list)
    """What was found before all inputs of its target were run again."""


class TooSlowError(BaseException):
    """Not an Exception: a parser must not catch it."""


def ring(number: int, frame: FrameType | None) -> None:
    raise TooSlowError


def work(seed: int, todo: Connection, told: Connection, note: Any) -> None:  # noqa: ANN401 - a shared array
    """Run inputs until there are no more, and tell what came of them. ``note`` holds the one that is running."""
    import pyarrow

    from headwater.noise import SeededRunWarning

    pyarrow.set_cpu_count(1)
    warnings.simplefilter("error")  # a warning that nobody documented is a finding too
    warnings.simplefilter("ignore", SeededRunWarning)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, ring)
    quick = Path("/dev/shm")  # noqa: S108 - a folder in memory, where there is one
    with tempfile.TemporaryDirectory(dir=quick if quick.is_dir() else None) as place:
        folder = Path(place)
        while (piece := todo.recv()) is not None:
            start, found = time.perf_counter(), list[tuple[str, int]]()
            for index in range(piece.first, piece.last):
                note[:] = piece.target, index
                wrong = once(TARGETS[piece.target], seed, index, folder)
                if wrong is not None:
                    found.append((wrong, index))
            told.send((piece, found, time.perf_counter() - start))


def once(target: Target, seed: int, index: int, folder: Path) -> str | None:
    """Run one input, within limits."""
    case = target.case(seed, index)
    place = folder / target.name.replace(" ", "-").replace(",", "")
    place.mkdir(exist_ok=True)
    signal.setitimer(signal.ITIMER_REAL, SLOW)
    try:
        return target.try_out(case, place)
    except TooSlowError:
        return f"more than {SLOW:g} seconds"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Worker:
    """A process that runs inputs; if one kills it, another takes over."""

    def __init__(self, seed: int) -> None:
        fresh = multiprocessing.get_context("spawn")
        self.note = fresh.Array("q", 2, lock=False)
        todo, self.todo = fresh.Pipe(duplex=False)
        self.told, told = fresh.Pipe(duplex=False)
        self.process = fresh.Process(target=work, args=(seed, todo, told, self.note), daemon=True)
        self.process.start()
        todo.close()
        told.close()
        self.piece: Work | None = None

    def give(self, piece: Work | None) -> None:
        """Hand over the next piece, or the end."""
        self.piece = piece
        self.todo.send(piece)


def fuzz(pieces: list[Work], seed: int, seconds: float | None, show: Show) -> Done:
    """Everything, on all processors."""
    done, begun, left = Done(), time.monotonic(), list(reversed(pieces))
    workers = [Worker(seed) for _ in range(os.cpu_count() or 1)]

    def on(worker: Worker) -> None:
        late = seconds is not None and time.monotonic() - begun > seconds
        worker.give(None if late or not left else left.pop())

    for worker in workers:
        on(worker)
    while any(worker.piece for worker in workers):
        for ready in wait([worker.told for worker in workers if worker.piece], timeout=1):
            worker = next(one for one in workers if one.told is ready)
            try:
                piece, found, took = worker.told.recv()
            except EOFError:  # the process is dead: the input that did it is noted
                worker.process.join()
                assert worker.piece is not None  # noqa: S101 - for the type checker
                target, index = worker.note
                keep(done, TARGETS[target], [(f"the process died ({worker.process.exitcode})", index)], seed)
                piece, found, took = Work(target, worker.piece.first, index + 1), [], 0.0
                left.append(Work(target, index + 1, worker.piece.last))
                workers[workers.index(worker)] = worker = Worker(seed)
            name = TARGETS[piece.target].name
            done.executions[name] += piece.last - piece.first
            done.seconds[name] += took
            keep(done, TARGETS[piece.target], found, seed)
            on(worker)
        show.at(done.executions.total(), len(done.findings))
    return done


def keep(done: Done, target: Target, found: list[tuple[str, int]], seed: int) -> None:
    """Note what went wrong, and write the first input of each kind to a file."""
    for what, index in found:
        if (target.name, what) not in done.findings:
            done.findings[target.name, what] = index
            folder = ROOT / "out" / "fuzz"
            folder.mkdir(parents=True, exist_ok=True)
            name = f"{target.name}-{seed}-{index}".replace(" ", "-").replace(",", "")
            case = target.case(seed, index)
            if isinstance(case, bytes):
                (folder / f"{name}.bin").write_bytes(case)
            else:
                (folder / f"{name}.pickle").write_bytes(pickle.dumps(case))
            (folder / f"{name}.txt").write_text(f"{what}\n")


class Show:
    """A bar on a terminal, if rich is there; a line now and then anywhere else."""

    def __init__(self, total: int) -> None:
        self._total, self._said = total, 0.0
        try:
            from rich.progress import Progress
        except ImportError:
            self._bar = None
        else:
            self._bar = Progress() if sys.stdout.isatty() else None
            if self._bar is not None:
                self._bar.start()
                self._task = self._bar.add_task("inputs", total=total)

    def at(self, done: int, findings: int) -> None:
        """So many inputs are done."""
        if self._bar is not None:
            what = f"inputs ({findings} findings)" if findings else "inputs"
            self._bar.update(self._task, completed=done, description=what)
        elif time.monotonic() - self._said > 10:
            self._said = time.monotonic()
            print(f"{done:,} of {self._total:,} inputs, {findings} findings", flush=True)

    def close(self) -> None:
        """The last word."""
        if self._bar is not None:
            self._bar.stop()


def share_out(total: int, only: str | None) -> list[Work]:
    """Pieces of all targets, in turns, so that a run that is cut short has tried all of them."""
    chosen = [i for i, target in enumerate(TARGETS) if only is None or only.lower() in target.name.lower()]
    parts = sum(TARGETS[i].parts for i in chosen) if chosen else sys.exit("there is no such target")
    pieces = list[tuple[float, Work]]()
    for i in chosen:
        count = -(-total * TARGETS[i].parts // parts)
        pieces += [(first / count, Work(i, first, min(first + BATCH, count))) for first in range(0, count, BATCH)]
    return [piece for _, piece in sorted(pieces, key=lambda pair: pair[0])]


def page(done: Done, seed: int, took: float) -> str:
    lines = [
        "# Fuzzing everything that parses",
        "",
        f"Made by `python -m benchmarks.fuzz` (seed {seed}): {done.executions.total():,} inputs in {took / 60:.0f}",
        "minutes. An input is a valid one made a little wrong: bits, tokens, pieces of other inputs, values of other",
        "kinds; checksums are put right again, so that what lies behind them is reached. Nothing but the documented",
        f"errors may come out, no input may take longer than {SLOW:g} seconds or more than {MEMORY >> 30} GB, and no",
        "message may hold a marked value of the data.",
        "",
        "| target | inputs | µs each | findings |",
        "| --- | ---: | ---: | ---: |",
    ]
    found = Counter(name for name, _ in done.findings)
    for name, n in ((target.name, done.executions[target.name]) for target in TARGETS):
        each = done.seconds[name] / max(n, 1) * 1e6
        lines += [f"| {name} | {n:,} | {each:,.0f} | {found[name]} |"] if n else []
    lines.append(f"| **all** | **{done.executions.total():,}** | | **{len(done.findings)}** |")
    if done.findings:
        lines += ["", "| finding | target | input |", "| --- | --- | ---: |"]
        lines += [f"| {what} | {name} | {index} |" for (name, what), index in done.findings.items()]
    if done.repaired:
        lines += ["", "Found, repaired, and gone when all inputs of these targets were run again:", ""]
        lines += [f"- {one['target']}, input {one['input']:,}: {one['what']}" for one in done.repaired]
    lines += ["", "What earlier runs found is repaired, and each of it is a test in `tests/fuzz/test_crashes.py`."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executions", type=int, default=1_050_000, help="how many inputs")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--target", help="only targets whose name holds this")
    parser.add_argument("--seed", type=int, default=1, help="other inputs")
    parser.add_argument("--again", action="store_true", help="only targets with findings in the last report")
    options = parser.parse_args()
    pieces = share_out(options.executions, options.target)
    before = json.loads((OUT / "fuzz.json").read_text()) if options.again else None
    if before is not None:
        options.seed, unsound = before["seed"], {finding["target"] for finding in before["findings"]}
        pieces = [piece for piece in pieces if TARGETS[piece.target].name in unsound]
    show, begun = Show(sum(piece.last - piece.first for piece in pieces)), time.monotonic()
    try:
        done = fuzz(pieces, options.seed, options.seconds, show)
    finally:
        show.close()
    took = time.monotonic() - begun
    if before is not None:
        took += before["seconds"]
        found = [one for one in before["findings"] if (one["target"], one["what"]) not in done.findings]
        done.repaired = before.get("repaired", []) + found
        for name in before["executions"].keys() - done.executions.keys():
            done.executions[name], done.seconds[name] = before["executions"][name], before["work"][name]
    text = page(done, options.seed, took)
    print(text)
    if done.executions.total() >= 1_000_000 and options.target is None:
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / "fuzz.md").write_text(text)
        findings = [{"target": name, "what": what, "input": index} for (name, what), index in done.findings.items()]
        content = {"seed": options.seed, "seconds": round(took), "executions": done.executions}
        content |= {"work": done.seconds, "findings": findings, "repaired": done.repaired}
        (OUT / "fuzz.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    if done.findings:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
