"""A δ as users meet it: refused, warned of, kept, and named wherever ε is."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import headwater as hw
from headwater.cli.app import app
from headwater.cli.exit_codes import Exit
from headwater.public.budget import Budget, DeltaWarning, Guarantee
from headwater.public.folder import publish, read_card
from headwater.public.marginals.plan import plan

WIDE = hw.Schema({f"c{i}": hw.Category(*"abcd") for i in range(9)})


def records(n: int, seed: int = 0) -> dict[str, list[str]]:
    rng = np.random.default_rng(seed)
    return {name: rng.choice(list("abcd"), n).tolist() for name in WIDE.columns}


@pytest.mark.parametrize("delta", [-1e-9, 0.6, 1.0, math.nan, math.inf, 1e-310])
def test_a_delta_out_of_range_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match=r"delta must be 0, or lie between 1e-300 and 0\.5 \(usual: 1e-9\)"):
        hw.Synthesizer(WIDE, epsilon=1.0, delta=delta)


@pytest.mark.parametrize("delta", ["1e-9", True, None])
def test_a_delta_that_is_no_number_is_refused(delta: object) -> None:
    with pytest.raises(TypeError, match="delta must be a number"):
        hw.Synthesizer(WIDE, epsilon=1.0, delta=delta)  # type: ignore[arg-type]


def test_mechanisms_without_one_refuse_it_with_the_way_out() -> None:
    with pytest.raises(ValueError, match="keeps pure ε only: leave out delta, or take cascade or marginals"):
        hw.Synthesizer(WIDE, epsilon=1.0, delta=1e-9, mechanism="paper")
    with pytest.raises(TypeError, match="delta"):
        hw.pmm(records(10), WIDE, epsilon=1.0, delta=1e-9)  # type: ignore[call-arg]


@pytest.mark.filterwarnings("ignore::headwater.SeededRunWarning")
def test_a_release_is_warned_of_from_one_over_delta_records_on() -> None:
    synth = hw.Synthesizer(WIDE, epsilon=1.0, delta=0.01, seed=1)
    synth.update(records(100))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        synth.release()
    synth.update(records(1))
    with pytest.warns(DeltaWarning, match=r"δ = 0\.01 is above one over the number of records, from 100 records on"):
        synth.release()


def test_the_plan_the_card_and_the_state_name_delta_and_the_law(tmp_path: Path) -> None:
    synth = hw.Synthesizer(WIDE, epsilon=1.0, delta=1e-9)
    assert str(synth.plan(2000)).startswith(
        "marginals, 9 columns, ε = 1, δ = 1e-09: replacing one record costs at most"
    )
    assert "ρ = " in str(synth.ledger())
    synth.update(records(200))
    release = synth.release()
    card = read_card(publish(release, tmp_path / "out", format="csv"))
    assert (card["epsilon"], card["delta"], card["noise"]) == (1.0, 1e-9, "discrete Gaussian")
    assert "are (ε, δ)-differentially private for replacing one record; ε and δ do not grow" in card["note"]
    again = hw.Synthesizer.from_bytes(synth.to_bytes())
    assert again.guarantee == synth.guarantee == Guarantee(1.0, 1e-9)
    release.save(tmp_path / "release.hw")
    assert hw.Release.load(tmp_path / "release.hw").guarantee.delta == 1e-9


def test_a_state_whose_gaussian_noise_was_drawn_by_another_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its quantities would get noise twice. Runs without a δ have none of it."""
    synth = hw.Synthesizer(WIDE, epsilon=1.0, delta=1e-9)
    pure = hw.Synthesizer(WIDE, epsilon=1.0)
    before = synth.to_bytes()
    monkeypatch.setattr("headwater.state.GAUSSIAN_VERSION", 99)
    with pytest.raises(hw.FileRefusedError, match=r"measures by another rule for Gaussian noise.*begin a new run"):
        hw.Synthesizer.from_bytes(before)
    assert hw.Synthesizer.from_bytes(pure.to_bytes()).t == 0


def test_a_plan_mixes_laws_and_takes_the_smaller_variance() -> None:
    """At δ = 1e-9 Gaussian noise wins from nine tables on: five columns are nine tables once pairs are measured."""
    stages = plan(5, Budget(1.0, 1e-9), 100_000).stages
    assert [stage.accounting.gaussian for stage in stages[:5]] == [False, False, False, False, True]
    for mixed, pure in zip(stages, plan(5, 1.0, 100_000).stages, strict=True):
        tables = 5 if not mixed.pairs else 9 + (2 if mixed.fast else 0)
        variances = [stage.accounting.count_law(stage.slow_budget / tables).variance for stage in (mixed, pure)]
        assert variances[0] <= variances[1]
    assert not any(stage.accounting.gaussian for stage in plan(3, Budget(1.0, 1e-9), 1000).stages)


# --- the command line --------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with wide.csv and wide.toml, which is the current one."""
    rows = zip(*records(400).values(), strict=True)
    (tmp_path / "wide.csv").write_text("\n".join([",".join(WIDE.columns), *map(",".join, rows)]) + "\n")
    WIDE.save(tmp_path / "wide.toml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*more: object) -> Result:
    words = ("run", "wide.csv", "--schema", "wide.toml", "--epsilon", "1", "--every", "200", *more)
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_run_with_a_delta_goes_on_with_the_same_and_with_no_other(table: Path) -> None:
    assert run("--delta", "1e-9").exit_code == Exit.DONE
    cards = [json.loads(path.read_text()) for path in sorted(table.glob("releases/*/card.json"))]
    assert [card["delta"] for card in cards] == [1e-9, 1e-9]
    assert run("--delta", "1e-9").exit_code == Exit.DONE
    for other in ("1e-8", "0"):
        refused = run("--delta", other)
        assert refused.exit_code == Exit.STATE
        assert "this run was begun with another delta (--delta 1e-09);" in " ".join(refused.output.split())


def test_the_command_line_refuses_and_warns(table: Path) -> None:
    assert run("--delta", "0.7").exit_code == Exit.USAGE
    refused = run("--delta", "1e-9", "--mechanism", "paper")
    assert refused.exit_code == Exit.USAGE
    assert "leave out delta" in refused.output
    warned = run("--delta", "0.01", "--out", "loose")
    assert warned.exit_code == Exit.DONE
    assert warned.output.count("δ = 0.01 is above one over the number of records") == 1
    early = run("--delta", "1e-3", "--expect", "5000", "--out", "expected")
    assert "δ = 0.001 is above one over the number of records, from 1,000 records on" in early.output
    assert "at ε = 1, δ = 0.001 (marginals)" in " ".join(early.output.split())
