"""A short run of every target, always with the same inputs: the fuzzer stays alive, and so do the parsers."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from headwater.public.errors import TableError
from headwater.public.files import FileRefusedError
from tests.fuzz.target import FoundError, Target
from tests.fuzz.targets import TARGETS

SEED, INPUTS = 7, 60


@pytest.fixture(autouse=True)
def _never_hangs() -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        pytest.fail("an input takes longer than a minute")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_nothing_but_documented_errors_comes_out(target: Target, tmp_path: Path) -> None:
    found = {}
    for index in range(INPUTS):
        wrong = target.try_out(target.case(SEED, index), tmp_path)
        if wrong is not None:
            found[index] = wrong
    assert found == {}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_inputs_are_neither_all_refused_nor_all_taken(target: Target, tmp_path: Path) -> None:
    """Otherwise there would be nothing to learn. The command line says it by exit codes, all of which are taken."""
    outcomes = set()
    for index in range(400):
        try:
            target.run(target.case(SEED, index), tmp_path)
            outcomes.add("taken")
        except Exception:
            outcomes.add("refused")
        if len(outcomes) == 2 or target.name == "command line":
            return
    pytest.fail(f"400 inputs, and all of them {outcomes}")


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_bytes_of_a_guided_fuzzer_become_inputs(target: Target, tmp_path: Path) -> None:
    starts = [*target.starts()[:30], b""]
    assert [target.try_out(target.guided(data), tmp_path) for data in starts] == [None] * len(starts)
    assert repr(target.guided(starts[0])) == repr(target.guided(starts[0]))
    assert len({repr(target.guided(data)) for data in starts}) > 2


# The rule itself ----------------------------------------------------------------------------------------------------


def tried(error: Exception, **options: Any) -> str | None:  # noqa: ANN401 - the fields of Target
    def run(case: object, folder: Path) -> None:
        raise error

    return Target("planted", run, **options).try_out(None, Path())


def test_an_undocumented_error_is_found() -> None:
    assert "KeyError" in (tried(KeyError("x"), errors=(FileRefusedError,)) or "")
    assert "ValueError" in (tried(ValueError("x"), arguments=True) or "")  # not raised in our own code
    assert tried(FoundError("no points")) == "no points"
    assert tried(FileRefusedError("x"), errors=(FileRefusedError,)) is None


def test_a_value_in_a_message_is_found_even_behind_it() -> None:
    error = TableError("a wrong value", "write another")
    assert tried(error, errors=(TableError,), secrets=("qZx7",)) is None
    error.__context__ = ValueError("could not read 'qZx7'")
    assert "in the message" in (tried(error, errors=(TableError,), secrets=("qZx7",)) or "")
    direct = TableError("a wrong value: qZx7", "write another")
    assert "in the message" in (tried(direct, errors=(TableError,), secrets=("qZx7",)) or "")
