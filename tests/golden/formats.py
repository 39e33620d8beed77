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

RECORDS, EPSILON, SEED = 1200, 3.0, 5
TABLES = ("dictionary", "list of records", "pandas", "polars", "Arrow")
FILES = (
    "plain.csv", "returns.csv", "quoted.csv", "packed.csv.gz", "tabs.tsv", "lines.jsonl",
    "typed.parquet", "typed.arrow",
)  # fmt: skip


def digests(name: str, folder: Path) -> dict[str, str]:
    """Of the rows and of the last release: of a file, as the command reads and publishes it."""
    given = _given(folder)[name]
    synth = hw.Synthesizer(WIDE, epsilon=EPSILON, seed=SEED)
    if isinstance(given, Path):
        _command(given, folder)
        return _of_file(given, folder)
    rows = adapter.encoded(synth, given)
    synth.update(given)
    synth.release().to_csv(folder / "release.csv")
    return {"rows": digest(rows), "released": digest((folder / "release.csv").read_text())}


def grown(folder: Path) -> dict[str, str]:
    """Of a file that grows between two commands, of which the second goes on with the state of the first."""
    path = _given(folder)["plain.csv"]
    whole = path.read_text()
    path.write_text(whole[: whole.index("\n", len(whole) * 3 // 5) + 1])
    _command(path, folder, "--state", folder / "state")
    path.write_text(whole)
    _command(path, folder, "--state", folder / "state")
    return _of_file(path, folder)


def _command(path: Path, folder: Path, *state: Any) -> None:  # noqa: ANN401
    WIDE.save(folder / "schema.toml")
    words = ["run", path, "--schema", folder / "schema.toml", "--epsilon", EPSILON, "--seed", SEED, "--every", 500]
    adapter.command(*words, "--out", folder / "out", "--format", "csv", *(state or ["--no-state"]))


def _of_file(path: Path, folder: Path) -> dict[str, str]:
    """Of its rows, and of the last release of the command."""
    synth = hw.Synthesizer(WIDE, epsilon=EPSILON, seed=SEED)
    rows = [adapter.encoded(synth, part) for part in hw.read(path, WIDE)]
    *_, last = sorted((folder / "out").glob("release-*/*.csv"))
    return {"rows": digest(np.concatenate(rows)), "released": digest(last.read_text())}


def _given(folder: Path) -> dict[str, Any]:
    """The same records in all forms; files are written."""
    columns = {name: trips(RECORDS)[name] for name in WIDE.names}
    records, frame, typed = records_of(columns), pd.DataFrame(columns), pa.table(columns)
    for name, kind in {"day": "datetime64[D]", "seen": "datetime64[us]"}.items():
        values = pa.array(np.array(columns[name], dtype=kind))
        typed = typed.set_column(typed.column_names.index(name), name, values)
    csv = frame.astype(object).to_csv(index=False)
    texts = {
        "plain.csv": csv.encode(),
        "returns.csv": csv.replace("\n", "\r\n").encode(),
        "quoted.csv": csv.replace("card", '"card"').encode(),
        "packed.csv.gz": gzip.compress(csv.encode()),
        "tabs.tsv": csv.replace(",", "\t").encode(),
        "lines.jsonl": "".join(json.dumps(record) + "\n" for record in records).encode(),
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    pa.parquet.write_table(typed, folder / "typed.parquet", row_group_size=350)
    pa.feather.write_feather(typed, str(folder / "typed.arrow"))
    tables = (columns, records, frame, pl.DataFrame(columns), typed)
    return dict(zip(TABLES, tables, strict=True)) | {name: folder / name for name in FILES}
