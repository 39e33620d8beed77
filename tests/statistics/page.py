"""The report of a billion draws: the judgement, and every p-value there was."""

from __future__ import annotations

import json
from pathlib import Path

from headwater.markdown import table
from tests.statistics.suite import LEVEL_OF_JUDGEMENT, Health

OUT = Path(__file__).parents[2] / "docs" / "benchmarks"


def write(health: Health, seed: int, folder: Path = OUT) -> None:
    """Write statistics.md and statistics.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "statistics.md").write_text(text(health, seed), encoding="utf-8")
    content = {
        "draws": health.draws,
        "seconds": round(health.seconds),
        "seed": seed,
        "level": LEVEL_OF_JUDGEMENT,
        "healthy": health.healthy,
        "smallest_times_number": health.corrected,
        "uniformity": health.uniformity,
        "families": health.families,
        "independent": health.independent,
    }
    (folder / "statistics.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def text(health: Health, seed: int) -> str:
    values = health.values
    lines = [
        "# Is the noise what it claims to be?",
        "",
        f"Made by `make test-statistics` (seed {seed}): {health.draws:,} draws of `headwater.secret.noise`, in",
        f"{health.seconds:,.0f} seconds. Every p-value of every check is below.",
        "",
        f"**{'No test rejects it.' if health.healthy else 'Something is wrong.'}** There are {len(values):,}",
        f"p-values. The smallest is {min(values):.2g}; times their number that is {health.corrected:.2g}, and below",
        f"{LEVEL_OF_JUDGEMENT:g} it would be an alarm (Holm). A sampler that is right raises one with a probability",
        f"of at most about {LEVEL_OF_JUDGEMENT:g}. {len(health.independent)} of the p-values come from draws of their",
        f"own; whether these are uniform is tested too (Kolmogorov and Smirnov): p = {health.uniformity:.2g}.",
        "",
        "*Whole law*: chi-square against the exact probabilities, in bins. *Zero*, *symmetry*, *tails*: exact binomial",
        "tests of how often 0 came, of the signs, and beyond thresholds where 30, 300 and 3000 draws are expected.",
        "*Size*: the sum of all |Z|, which shows a wrong scale best. *Slope*: the odds of neighbouring values, one",
        "step and one scale apart. *Neighbours*: pairs of draws at neighbouring addresses. *Steps*: the distribution",
        "function (Kolmogorov and Smirnov). A check that expects next to nothing is left out.",
    ]
    for name, rows in health.families.items():
        lines += ["", f"## {name.capitalize()}", ""]
        lines += _row_by_row(rows) if name.startswith("uniform bits") else _table(rows)
    lines += ["", "## The whole law, in each five million draws by themselves", "", _row(health.independent)]
    return "\n".join(lines) + "\n"


def _table(rows: dict[str, dict[str, float]]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    cells = [[scale, *(f"{row[name]:.2g}" if name in row else "" for name in names)] for scale, row in rows.items()]
    return table(["scale", *names], cells, "r").splitlines()


def _row_by_row(rows: dict[str, dict[str, float]]) -> list[str]:
    return [f"*{name}*: {_row(list(row.values()))}\n" for name, row in rows.items()]


def _row(values: list[float]) -> str:
    return " ".join(f"{p:.2g}" for p in values)
