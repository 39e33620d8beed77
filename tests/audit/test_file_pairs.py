"""The auditor's pairs of files: what the readers do passes, and readers with a fault are found out."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from headwater.audit import AuditAlarm
from headwater.audit.files import Command, FilePair, check_files, file_pairs
from headwater.cli.app import app
from headwater.public.numbers import Integer
from headwater.public.schema import Schema
from headwater.synthesizer import Synthesizer

PAIRS = {pair.name: pair for pair in file_pairs()}


def in_this_process(arguments: Sequence[str], folder: Path) -> int:
    """The command without a process of its own: enough where the audit is tested, not the command."""
    with contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CliRunner().invoke(app, list(arguments), env={"XDG_STATE_HOME": str(folder)}).exit_code


def drops_blank_lines(arguments: Sequence[str], folder: Path) -> int:
    """A reader for which a blank line is no record."""
    path = folder / arguments[1]
    path.write_text("\n".join(line for line in path.read_text().split("\n") if line) + "\n")
    return in_this_process(arguments, folder)


def cuts_by_bytes(arguments: Sequence[str], folder: Path) -> int:
    """A reader that ends a batch after so many bytes of text, and publishes there."""
    text, at, code = (folder / arguments[1]).read_text(), 0, 0
    while at < len(text) and not code:
        at = text.find("\n", at + (1 << 22)) + 1 or len(text)
        (folder / arguments[1]).write_text(text[:at])
        code = in_this_process(arguments, folder)
    return code


def ends_by_content(arguments: Sequence[str], folder: Path) -> int:
    """A run whose exit code depends on what a record says."""
    text = (folder / arguments[1]).read_text()
    return in_this_process(arguments, folder) + ("b\nc" in text)


def reads_on_in_quotes(arguments: Sequence[str], folder: Path) -> int:
    """A reader for which an open quote takes the next line along, and the two are one bad row."""
    path = folder / arguments[1]
    path.write_text(path.read_text().replace('"0.5\n', "bad"))
    return in_this_process(arguments, folder)


CAUGHT: list[tuple[Command, str, str]] = [
    (drops_blank_lines, "a missing value alone on its line", "what is published when distinguishes the files"),
    (drops_blank_lines, "an empty text alone on its line", "what is published when distinguishes the files"),
    (cuts_by_bytes, "a longer text of the same value", "what is published when distinguishes the files"),
    (reads_on_in_quotes, "a quote that is not closed", "what is published when distinguishes the files"),
    (ends_by_content, "a line break inside a record", "the exit code distinguishes the files"),
]


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_files_that_differ_in_one_record_look_alike(pair: FilePair) -> None:
    check_files(pair)


@pytest.mark.parametrize(("fault", "name", "why"), CAUGHT, ids=lambda one: getattr(one, "__name__", one))
def test_a_reader_with_a_fault_is_found_out(fault: Command, name: str, why: str) -> None:
    with pytest.raises(AuditAlarm, match=why):
        check_files(PAIRS[name], fault)


LARGE = 1 << 53  # from here on not every whole number is a float
NUMBERS = Schema(n=Integer(LARGE - 5, LARGE + 5))
SHAPES: dict[str, Callable[[list[object]], object]] = {
    "a list of records": lambda values: [{"n": value} for value in values],
    "a dictionary of lists": lambda values: {"n": values},
}


def others_change(shape: Callable[[list[object]], object]) -> bool:
    """Whether one record of a table changes what is kept of the others."""
    synth, values = Synthesizer(NUMBERS, epsilon=1.0), [LARGE + i % 2 for i in range(64)]
    kept = synth.encode(shape([*values])).rows
    for replacement in (LARGE - 2.0, 2.0, True, None, "1"):
        with contextlib.suppress(ValueError, TypeError):  # the record itself is refused
            other = synth.encode(shape([*values[:17], replacement, *values[18:]])).rows
            if not {17}.issuperset(np.flatnonzero((kept != other).any(axis=1)).tolist()):
                return True
    return False


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_record_in_a_table_changes_no_other(
    shape: Callable[[list[object]], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a fault is found: a float among integers turns all of them into floats, as an array of both does."""
    assert not others_change(shape)
    encode = Schema.encode_batch

    def together(self: Schema, table: Any, *, bad_rows: str = "stop") -> object:  # noqa: ANN401
        values = table["n"] if isinstance(table, dict) else [row["n"] for row in table]
        known = all(isinstance(value, int | float) for value in values)
        return encode(self, {"n": np.array(values).tolist() if known else values}, bad_rows=bad_rows)

    monkeypatch.setattr(Schema, "encode_batch", together)
    assert others_change(shape)
