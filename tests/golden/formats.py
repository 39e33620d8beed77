"""One table in every form that is read: each must give the rows and the release that plain columns give."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

import headwater as hw
from tests.golden import adapter
from tests.golden.digest import digest
from tests.golden.tables import WIDE, records_of, trips

TABLES = ("dictionary", "list of records", "pandas", "polars", "Arrow")
TEXTS = ("plain.csv", "returns.csv", "quoted.csv", "packed.csv.gz", "tabs.tsv", "lines.jsonl")
FORMS = (*TABLES, *TEXTS, "typed.parquet", "typed.arrow", "growing.csv")


def digests(name: str, folder: Path) -> dict[str, str]:
    """Of the rows and of the last release: of a file, as the command reads and publishes it."""
    given: Any = _given(folder).get(name, folder / name)
    synth = hw.Synthesizer(WIDE, epsilon=3.0, seed=5)
    if name not in TABLES:
        WIDE.save(folder / "schema.toml")
        _command(given, folder)
        if name == "growing.csv":  # and the run goes on from its state
            given.write_bytes((folder / "plain.csv").read_bytes())
            _command(given, folder)
        given = pa.concat_tables(hw.read(given, WIDE))
    synth.update(given)
    synth.release().to_csv(folder / "release.csv")
    release = max(folder.glob("out/release-*/*.csv"), default=folder / "release.csv")
    return {"rows": digest(adapter.encoded(synth, given)), "released": digest(release.read_text())}


def _command(path: Path, folder: Path) -> None:
    words = ["--schema", folder / "schema.toml", "--epsilon", 3.0, "--seed", 5, "--state", folder / "state"]
    adapter.command("run", path, *words, "--every", 500, "--out", folder / "out", "--format", "csv")


def _given(folder: Path) -> dict[str, Any]:
    """Tables in all forms; files are written."""
    columns = {name: trips(1200)[name] for name in WIDE.names}
    records, frame, typed = records_of(columns), pd.DataFrame(columns), pa.table(columns)
    for place, (name, kind) in enumerate([("day", "datetime64[D]"), ("seen", "datetime64[us]")]):
        typed = typed.set_column(place, name, pa.array(np.array(columns[name], dtype=kind)))
    csv = frame.astype(object).to_csv(index=False).encode()
    lines = "".join(json.dumps(record) + "\n" for record in records).encode()
    quoted, returns, tabs = (csv.replace(*how) for how in ((b"card", b'"card"'), (b"\n", b"\r\n"), (b",", b"\t")))
    for name, text in zip(TEXTS, (csv, returns, quoted, gzip.compress(csv), tabs, lines), strict=True):
        (folder / name).write_bytes(text)
    (folder / "growing.csv").write_bytes(csv[: csv.index(b"\n", len(csv) * 3 // 5) + 1])
    pa.parquet.write_table(typed, folder / "typed.parquet", row_group_size=350)
    pa.feather.write_feather(typed, str(folder / "typed.arrow"))
    return dict(zip(TABLES, (columns, records, frame, pl.DataFrame(columns), typed), strict=True))
