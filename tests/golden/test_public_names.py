"""Every public name of before is still there, unless it was meant to go."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import typer.main

from headwater.cli.app import app
from tests.docs.test_parameters import chosen, resolve, shown

BEFORE = Path(__file__).with_name("public_names.txt").read_text(encoding="utf-8").splitlines()
GONE = {
    "a batch of any records is a `Batch`": "BucketedCounts BucketedCounts.counts BucketedCounts.merge "
    "BucketedCounts.records BucketedCounts.rows BucketedCounts.starts BucketedCounts.until",
    "`encode`, with numbers or without, reads records in every way": "Synthesizer.count_rows Synthesizer.encode_batch "
    "Synthesizer.encode_points Synthesizer.histogram",
    "`take` takes every batch, and `checked` says whether it can": "Synthesizer.check_counts Synthesizer.check_rows "
    "Synthesizer.stamped Synthesizer.update_counted_rows Synthesizer.update_counts Synthesizer.update_rows",
    "`bucket` says where each begins and ends": "Synthesizer.buckets",
    "of the mechanism, and of no use to others": "Synthesizer.coarser Synthesizer.place_bits Synthesizer.width",
    "`ledger` and `plan` say it": "Synthesizer.status",
    "a state that another rule has measured is refused, which says so": "Synthesizer.measurement_version",
    "one stream for each public key": "Query.runs",
    "errors are of questions, and columns and pairs come ranked": "Evaluation.answers Evaluation.difference "
    "Evaluation.one_way Evaluation.ranked_columns Evaluation.ranked_pairs Evaluation.two_way",
}
"""Names of `BEFORE` that went, each with the reason."""
WRITTEN = ("date-format", "decimal", "delimiter", "encoding", "ignore-extra", "input-format", "null-value", "thousands")
GONE_OPTIONS = {
    "how files are written is declared in the schema file": {
        *(f"{name} --{option}" for name in ("run", "report", "evaluate") for option in WRITTEN),
        "serve --ignore-extra",
    },
    "a file that was renamed or cut is refused": {"run --gone-is-done", "run --same-again"},
    "training a classifier is ten lines of scikit-learn": {"evaluate --target", "report --target"},
    "long audits are nightly tests": {"audit --checkpoint", "audit --search", "audit --size"},
    "its folder can be removed": {"demo --fresh"},
}
"""Options of commands that went, each with the reason."""


def public_names() -> Iterator[str]:
    """Of the package, of what the page of the API shows, and of the command line."""
    for name in shown():
        found, public, known = resolve(name), chosen(name), f"headwater.{name.rpartition('.')[2]}"
        yield known  # modules may move
        for one in found.__mro__ if inspect.isclass(found) else ():
            ours = {*vars(one), *vars(one).get("__annotations__", ())} if one.__module__.startswith("headwater") else ()
            yield from (f"{known}.{key}" for key in ours if key[0] != "_" and (public is None or key in public))
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]  # a group has them
        yield from (f"headwater {name} {option}" for one in command.params for option in one.opts)


def test_only_names_went_that_were_meant_to_go() -> None:
    gone = {f"headwater.{name}" for names in GONE.values() for name in names.split()}
    gone |= {f"headwater {option}" for options in GONE_OPTIONS.values() for option in options}
    assert set(BEFORE) - set(public_names()) == gone
