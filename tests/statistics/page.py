"""The report of a billion draws: the judgement, and the smallest p-value of each family; all of them are in JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headwater.markdown import table
from tests.statistics.suite import LEVEL_OF_JUDGEMENT, Health

OUT = Path(__file__).parents[2] / "docs" / "benchmarks"


def write(health: Health, seed: int, folder: Path = OUT) -> None:
    """Write statistics.md and statistics.json."""
    folder.mkdir(parents=True, exist_ok=True)
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
    (folder / "statistics.md").write_text(text(content), encoding="utf-8")


def text(found: dict[str, Any]) -> str:
    """The page, made from the content of statistics.json alone."""
    rows, number = [], 0
    for name, family in found["families"].items():
        smallest = min((p, scale, check) for scale, checks in family.items() for check, p in checks.items())
        many = sum(map(len, family.values()))
        rows.append([name, str(len(family)), str(many), f"{smallest[0]:.2g}", f"{smallest[2]}, {smallest[1]}"])
        number += many
    number += len(found["independent"])
    return f"""# Is the noise what it claims to be?

**{"No test rejects it" if found["healthy"] else "Something is wrong"}** in {found["draws"]:,} draws of
`headwater.secret.noise`. The smallest of {number:,} p-values, times their number, is
{found["smallest_times_number"]:.2g}; below {found["level"]:g} it would be an alarm (Holm), which a correct sampler
raises with a probability of at most about {found["level"]:g}. {len(found["independent"])} p-values come from draws of
their own; that these are uniform is tested too: p = {found["uniformity"]:.2g}.

{table(["family", "scales", "p-values", "smallest", "where"], rows, "lrrrl")}
*Whole law*: chi-square against the exact probabilities, in bins. *Zero*, *symmetry*, *tails*: exact binomial tests of
how often 0 came, of the signs, and beyond thresholds. *Size*: the sum of all |Z|. *Slope*: the odds of neighbouring
values, one step and one scale apart. *Neighbours*: pairs of draws at neighbouring addresses. *Steps*: the distribution
function. Made by `make test-statistics` (seed {found["seed"]}) in {found["seconds"]} seconds; every p-value
is in `statistics.json`.
"""
