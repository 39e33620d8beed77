"""What it takes to know ten million people: ``python -m benchmarks.people_memory`` adds it to the page of people."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import people_page
from benchmarks.clock import seconds
from benchmarks.pages import kept, publish
from headwater import Number, Person, Schema
from headwater.run import FolderSink, Run, RunConfig

PEOPLE, BATCH, CAP = 10_000_000, 1 << 17, 20


def measure() -> dict[str, float]:
    """A run with a state, one record of everybody: its processor time, the size of its state, and how it goes on."""
    config = RunConfig(Schema(x=Number(0, 1), y=Number(0, 1)), 1.0, person=Person("who", records=CAP))
    rng = np.random.default_rng(0)
    who = rng.permutation(PEOPLE)
    with TemporaryDirectory() as folder:
        sink, state = FolderSink(Path(folder) / "out"), Path(folder) / "run.state"

        def first() -> None:
            with Run.open(config, sink, state=state) as run:
                for start in range(0, PEOPLE, BATCH):
                    names = who[start : start + BATCH]
                    run.take({"x": rng.random(len(names)), "y": rng.random(len(names)), "who": names})

        def again() -> None:
            with Run.open(config, sink, state=state) as run:
                run.take({"x": [0.5] * 40, "y": [0.5] * 40, "who": [5] * 40})
                if run.tally.capped != 41 - CAP:
                    raise RuntimeError("a run that goes on has forgotten somebody")

        took = seconds(first)
        return {"people": PEOPLE, "cap": CAP, "run": took, "state": state.stat().st_size, "resumed": seconds(again)}


if __name__ == "__main__":
    publish("people", kept("people") | {"memory": measure()}, people_page.page, people_page.draw)
