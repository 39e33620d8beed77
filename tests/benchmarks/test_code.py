"""Remembered figures are forgotten when the code that makes them changes, wherever that code has moved to."""

from functools import partial

import numpy as np
import pytest

import headwater as hw
from benchmarks.code import fingerprint, modules_run, stripped


def use(mechanism: str) -> None:
    synth = hw.Synthesizer(hw.unit_cube(2), epsilon=1.0, mechanism=mechanism, seed=0)
    synth.update(np.random.default_rng(0).random((300, 2)))
    synth.release().points()


def test_what_runs_is_in_the_fingerprint_and_what_does_not_is_not() -> None:
    cascade, paper = (modules_run(partial(use, name)) for name in ("cascade", "paper"))
    assert hw.Synthesizer.__module__ in cascade & paper
    assert cascade - paper
    assert paper - cascade
    assert not any(name.startswith(("headwater.audit", "headwater.cli")) for name in cascade | paper)
    assert fingerprint(cascade) != fingerprint(paper)


def test_nothing_that_runs_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing of headwater was run"):
        modules_run(lambda: None)


def test_a_module_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"no module headwater\.renamed"):
        fingerprint({"headwater.public.partition", "headwater.renamed"})


def test_words_do_not_change_the_fingerprint_and_code_does() -> None:
    source = "def f(x):\n    return x + 1\n"
    assert stripped('"""Words."""\n\ndef f(x):\n    """More."""\n    return x + 1  # why\n') == stripped(source)
    assert stripped(source.replace("1", "2")) != stripped(source)
