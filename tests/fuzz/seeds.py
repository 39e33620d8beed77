"""Valid inputs of every parser, small so that many can be tried. Data values hold marks that no message may show."""

from __future__ import annotations

import io
import json
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import tomli_w

import headwater as hw
from headwater.public.folder import publish
from headwater.run.state import State
from headwater.secret.batch import Batch

POSITION = {"input": {"file": 2}}
"""What a run keeps beside its records."""

MARK = "qZx7"
"""In text that is somebody's data."""
NUMBER = "918273"
"""In numbers that are somebody's data."""

TABLE = hw.Schema(
    size=hw.Number(0, 10),
    age=hw.Integer(0, 120, missing=True, outside="error"),
    paid=hw.Category("card", "cash", "other", other="other"),
    member=hw.Boolean(missing=True),
    when=hw.Datetime("2024-01-01", "2024-12-31", step="1h", missing=True),
    at=hw.TimeOfDay(step="1min", missing=True),
    code=hw.Category(1, 2, 3),
)
ZONED = hw.Schema(
    {
        "a b": hw.Datetime("2024-01-01T00:00:00+01:00", "2024-02-01T00:00:00+01:00", step="15min"),
        "é": hw.Number(-1, 1, outside="error", weight=2.0),
        "text": hw.Category("", "x", "y"),
    }
)
ROWS: list[dict[str, Any]] = [
    {"size": 1.5, "age": 31, "paid": "card", "member": True, "when": "2024-03-01T10:00:00", "at": "10:30:00",
    "code": 1},
    {"size": 918273.5, "age": None, "paid": "qZx7 shells", "member": False, "when": None, "at": "23:59:00", "code": 2},
    {"size": -4, "age": 7, "paid": "cash", "member": None, "when": "2024-12-31T23:00:00", "at": None, "code": 3},
    {"size": 9.25, "age": 120, "paid": "qZx7, so", "member": True, "when": "2024-06-01T00:00:00",
    "at": "00:00:00", "code": 1},
]  # fmt: skip
BAD: list[tuple[str, Any]] = [
    ("size", "qZx7"), ("size", "918273x"), ("age", 918273), ("age", "qZx7"), ("age", 918273.5), ("paid", {"qZx7": 1}),
    ("member", "qZx7"), ("when", "qZx7"), ("when", "918273-01-01"), ("at", "qZx7"), ("at", "91:82:73"),
    ("code", 918273),
    ("code", "qZx7"), ("size", None), ("code", None), ("paid", ["qZx7"]),
]  # fmt: skip


def csv_text(rows: list[dict[str, Any]], end: str = "\n") -> str:
    def field(value: object) -> str:
        text = "" if value is None else str(value)
        return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\n') else text

    lines = [",".join(TABLE.names), *(",".join(field(row[name]) for name in TABLE.names) for row in rows)]
    return end.join(lines) + end


@cache
def wrong_rows() -> list[list[dict[str, Any]]]:
    """The rows as they are, and with one wrong value each."""
    found = [ROWS]
    for name, value in BAD:
        rows = [dict(row) for row in ROWS]
        rows[2][name] = value
        found.append(rows)
    return found


@cache
def csv_files() -> list[bytes]:
    files = [csv_text(rows).encode() for rows in wrong_rows()]
    return [*files, csv_text(ROWS, "\r\n").encode(), b"\xef\xbb\xbf" + csv_text(ROWS).encode()]


@cache
def json_files() -> list[bytes]:
    return ["".join(json.dumps(row) + "\n" for row in rows).encode() for rows in wrong_rows()]


@cache
def columnar_files() -> list[tuple[str, bytes]]:
    """Parquet, Arrow files and Arrow streams, by their endings."""
    table = TABLE.decode(np.random.default_rng(1).random((20, TABLE.dimension)), "arrow")
    found = []
    for compression in ("none", "zstd"):
        sink = io.BytesIO()
        pq.write_table(table, sink, compression=compression)
        found.append((".parquet", sink.getvalue()))
    for make in (pa.ipc.new_file, pa.ipc.new_stream):
        sink = io.BytesIO()
        with make(sink, table.schema) as writer:
            writer.write_table(table)
        found.append((".arrow", sink.getvalue()))
    return found


@cache
def schemas() -> list[dict[str, Any]]:
    return [TABLE.to_dict(), ZONED.to_dict(), hw.unit_cube(3).to_dict(), hw.Schema(x=hw.Number(0, 1)).to_dict()]


@cache
def toml_files() -> list[bytes]:
    return [tomli_w.dumps(schema).encode() for schema in schemas() if "columns" in schema]


@cache
def schema_json_files() -> list[bytes]:
    return [json.dumps(schema, ensure_ascii=False).encode() for schema in schemas() if "columns" in schema]


@cache
def synthesizers() -> list[hw.Synthesizer]:
    """Runs of both mechanisms at several ages, some of which have published."""
    rng, found = np.random.default_rng(2), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for mechanism in ("cascade", "paper"):
            for d, t, epsilon in ((1, 0, 1.0), (1, 40, 20.0), (2, 5, 1.0), (2, 700, 8.0), (3, 90, 1.0)):
                synth = hw.Synthesizer(hw.unit_cube(d), epsilon=epsilon, mechanism=mechanism, seed=t)
                synth.update(rng.random((t, d)))
                synth.release()
                found.append(synth)
            synth = hw.Synthesizer(TABLE, epsilon=4.0, mechanism=mechanism, seed=9)
            synth.update(ROWS * 40)
            found.append(synth)
    return found


@cache
def states() -> list[bytes]:
    return [synth.to_bytes() for synth in synthesizers()]


@cache
def releases() -> list[bytes]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, synth in enumerate(synthesizers()):
            path = Path(folder) / str(number)
            synth.release().save(path)
            found.append(path.read_bytes())
    return found


@cache
def cards() -> list[tuple[dict[str, Any], str, bytes]]:
    """Cards, and the names and contents of their data."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for format_ in ("parquet", "csv"):
            place = publish(synthesizers()[5].release(), Path(folder) / format_, format=format_)
            card = json.loads((place / "card.json").read_text())
            found.append((card, card["data"], (place / card["data"]).read_bytes()))
    return found


@cache
def stores() -> list[bytes]:
    """A store with a snapshot, a journal, positions and a release."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.state"
        synth = synthesizers()[3]
        with State.create(path, {"schema": synth.schema.to_dict(), "epsilon": 8.0, "mechanism": "cascade"}) as store:
            store.append(Batch(np.zeros((synth.t, 1), np.uint64)), {"file": 1})
            store.snapshot(synth.t, synth.to_bytes())
            store.append(synth.encode(np.full((3, 2), 0.25)), POSITION)
            store.published(synth.t, "00" * 32)
        return [path.read_bytes()]
