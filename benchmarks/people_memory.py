"""What the table of people takes, at ten million of them.

    python -m benchmarks.people_memory

Adds the numbers to docs/benchmarks/people.json and makes the page anew.
"""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np
from numpy.typing import NDArray

from benchmarks import people_page
from headwater import Number, Person, Schema
from headwater.public.series import read_values
from headwater.run import FolderSink, Run, RunConfig
from headwater.secret.people import People

RESULTS = Path(__file__).parents[1] / "docs" / "benchmarks"
PEOPLE, RECORDS, BATCH, CAP = 10_000_000, 20_000_000, 1 << 17, 20
PERSON = Person("who", records=CAP)


def arrivals() -> NDArray[np.int64]:
    """Everybody has a record, in random order, and then as many again come from people at random."""
    rng = np.random.default_rng(0)
    return np.concatenate((rng.permutation(PEOPLE), rng.integers(0, PEOPLE, RECORDS - PEOPLE)))


def times(who: NDArray[np.int64]) -> dict[str, float]:
    """Processor time: of all, of hashing, and of the longest batch."""
    people, hashing, seconds, longest = People.begin(PERSON, bytes(32)), 0.0, 0.0, 0.0
    for start in range(0, RECORDS, BATCH):
        begun = process_time()
        hashes, _, _ = people.read(read_values(who[start : start + BATCH]), None)
        hashed = process_time()
        _, people = people.after(hashes, None, start)
        ended = process_time()
        seconds, hashing, longest = seconds + ended - begun, hashing + hashed - begun, max(longest, ended - hashed)
    return {"seconds": seconds, "hashing": hashing, "longest": longest}


def memory(who: NDArray[np.int64]) -> dict[str, float]:
    """Bytes of the table; numbers at random instead of hashes, since tracing slows those down."""
    people, most, peak = People.begin(PERSON, bytes(32)), 0, 0
    hashes = np.random.default_rng(1).integers(0, 2**64 - 2, (PEOPLE, 2), dtype=np.uint64)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for start in range(0, RECORDS, BATCH):
        tracemalloc.reset_peak()
        _, people = people.after(hashes[who[start : start + BATCH]], None, start)
        peak = max(peak, tracemalloc.get_traced_memory()[1] - before)
        most = max(most, people.caps.nbytes)
    rest = sum(array.nbytes for array in people.caps.state().values())
    return {"bytes_at_rest": rest, "bytes_at_most": most, "peak": peak}


def durable(who: NDArray[np.int64]) -> dict[str, float]:
    """A run with a state, one record of everybody: its processor time, the size of its state, and how it goes on."""
    config = RunConfig(Schema(x=Number(0, 1), y=Number(0, 1)), 1.0, person=PERSON)
    rng = np.random.default_rng(2)
    with TemporaryDirectory() as folder:
        sink, state = FolderSink(Path(folder) / "out"), Path(folder) / "run.state"
        begun = process_time()
        with Run.open(config, sink, state=state) as run:
            for start in range(0, PEOPLE, BATCH):
                names = who[start : min(start + BATCH, PEOPLE)]
                run.take({"x": rng.random(len(names)), "y": rng.random(len(names)), "who": names})
        ended = process_time()
        with Run.open(config, sink, state=state) as run:
            resumed = process_time() - ended
            run.take({"x": [0.5] * 40, "y": [0.5] * 40, "who": [5] * 40})
            if run.tally.capped != 41 - CAP:
                raise RuntimeError("a run that goes on has forgotten somebody")
        return {"run": ended - begun, "resumed": resumed, "state": state.stat().st_size}


def measure() -> dict[str, float]:
    """All of it."""
    who = arrivals()
    counts = {"people": PEOPLE, "records": RECORDS, "batch": BATCH, "cap": CAP}
    return counts | times(who) | durable(who) | memory(who)


if __name__ == "__main__":
    path = RESULTS / "people.json"
    found = measure()
    print(found)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"memory": found}, indent=1) + "\n")
    people_page.write(RESULTS)
