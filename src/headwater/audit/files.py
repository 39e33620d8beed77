"""Where text becomes records: pairs of files that differ in one record go through `headwater run`, twice.

Formal guarantees
-----------------
The guarantee is about streams of records. It holds for files only if replacing a record *in the file* leaves the number
of records, the other records and the times of publication as they are: whatever else changed would not be under any
noise, and would distinguish one such file from the other with certainty.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np

from headwater.audit.view import AuditAlarm
from headwater.public.categories import Category
from headwater.public.folder import folders, read_card
from headwater.public.numbers import Number
from headwater.public.schema import Schema

Command = Callable[[Sequence[str], Path], int]
"""Runs `headwater` with these arguments in a folder, and gives its exit code."""
INPUT = 3  # the exit code of a run that has refused a record
WIDE = 200  # characters of a record in files that are read in several blocks
BATCH_ENDS = "0.000001s"  # the clock is looked at where batches end, and this much time is always over by then


def in_a_process(arguments: Sequence[str], folder: Path) -> int:
    command = [sys.executable, "-W", "ignore", "-m", "headwater.cli", *arguments]
    alone = {**os.environ, "XDG_STATE_HOME": str(folder)}  # what these runs spend is nobody's
    return subprocess.run(command, cwd=folder, env=alone, capture_output=True, check=False).returncode  # noqa: S603


@dataclass(frozen=True)
class FilePair:
    name: str
    file: str  # whose ending says which format it has
    schema: Schema
    head: str  # what comes before the records
    records: tuple[str, ...]
    position: int
    replacement: str
    every: str = "100"
    refused: bool = False  # the replacement is no record of the schema, and the run may end there
    bad_rows: str = "stop"

    def text(self, side: int) -> str:
        records = list(self.records)
        if side:
            records[self.position] = self.replacement
        return self.head + "\n".join(records) + "\n"


Seen = tuple[int, tuple[tuple[str, int, int], ...]]
"""What everybody can see of a run: its exit code, what it published when, and how many records each release has."""


def file_pairs() -> Iterator[FilePair]:
    """Records that are longer, missing, empty, quoted with a line break inside, refused, or null."""
    one = Schema(x=Number(0, 1, missing=True))
    values = tuple(f"{value:.6f}" for value in np.random.default_rng(0).random(450))
    yield FilePair("a missing value alone on its line", "in.csv", one, "x\n", values, 217, "")
    words = Schema(word=Category("", "a", "b\nc"))
    texts = tuple("a" for _ in range(450))
    yield FilePair("an empty text alone on its line", "in.csv", words, "word\n", texts, 217, "")
    lines_in_fields = words.with_reading(multiline=True)
    yield FilePair("a line break inside a record", "in.csv", lines_in_fields, "word\n", texts, 217, '"b\nc"')
    lines = tuple(f'{{"x": {value}}}' for value in values)
    yield FilePair("a missing value", "in.jsonl", one, "", lines, 217, '{"x": null}')
    yield FilePair("a record that is refused", "in.csv", Schema(x=Number(0, 1)), "x\n", values, 217, "no", refused=True)
    yield FilePair("a quote that is not closed", "in.csv", one, "x\n", values, 217, '"0.5', bad_rows="null")
    wide = tuple(value.ljust(WIDE, "0") for _ in range(100) for value in values)
    yield FilePair("a longer text of the same value", "in.csv", one, "x\n", wide, 12, "0.5" + 300 * "0", BATCH_ENDS)


def check_files(pair: FilePair, command: Command = in_a_process) -> float:
    """Alarm if anything differs that everybody can see of the two runs without reading a released record. Gives 0."""
    (code, published), (other_code, others) = (_seen(pair, side, command) for side in (0, 1))
    if pair.refused and other_code == INPUT:
        other_code, others = code, others + published[len(others) :]
    if not published:
        raise AuditAlarm(f"{pair.name}: nothing was published, exit code {code}")
    if code != other_code:
        raise AuditAlarm(f"{pair.name}: the exit code distinguishes the files: {code} or {other_code}")
    for here, there in zip_longest(published, others):
        if here != there:
            raise AuditAlarm(f"{pair.name}: what is published when distinguishes the files: {here} or {there}")
    return 0.0


def _seen(pair: FilePair, side: int, command: Command) -> Seen:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / pair.file).write_text(pair.text(side))
        pair.schema.save(folder / "schema.json")
        options = ["--schema", "schema.json", "--epsilon", "1", "--out", "out", "--format", "csv"]
        code = command(["run", pair.file, *options, "--every", pair.every, "--bad-rows", pair.bad_rows], folder)
        cards = [(place.name, read_card(place)) for place in folders(folder / "out")]
    return code, tuple((name, card["t"], card["rows"]) for name, card in cards)
