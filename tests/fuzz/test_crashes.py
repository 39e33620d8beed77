"""What fuzzing has found: each of these once did something else than raise a documented error."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
from typer.testing import CliRunner

import headwater as hw
from headwater.cli.app import app
from headwater.cli.exit_codes import Exit
from headwater.public.folder import read_card
from headwater.public.schema import schema_from_dict
from headwater.run.lock import StateDamagedError
from headwater.run.restore import read_state
from headwater.run.state import State
from headwater.secret.batch import Batch
from headwater.secret.read.source import open_source
from tests.fuzz import seeds
from tests.fuzz.shells import change_store, heads

DIGITS = "9" * 5000  # Python reads no number of more than 4300
HUGE = 10**400  # no float is near to it
HALF = "\ud800"  # half of a character

# Schemas ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".toml", f'headwater = 1\n[columns.x]\nkind = "number"\nlow = 0\nhigh = {DIGITS}\n'),
        (".json", f'{{"headwater": 1, "columns": {{"x": {{"kind": "number", "low": 0, "high": {DIGITS}}}}}}}'),
    ],
)
def test_a_number_of_thousands_of_digits_in_a_schema_file(tmp_path: Path, suffix: str, text: str) -> None:
    path = tmp_path / f"schema{suffix}"
    path.write_text(text)
    with pytest.raises(hw.SchemaError, match="far too long"):
        hw.Schema.load(path)


@pytest.mark.parametrize("declared", [5, None, [], "x", 1.5])
def test_a_schema_that_is_no_table(declared: object) -> None:
    with pytest.raises(hw.SchemaError):
        schema_from_dict(declared)


@pytest.mark.parametrize("dimension", [1001, 2**31, 2**62, HUGE])
def test_a_cube_that_does_not_fit_into_memory(dimension: int) -> None:
    with pytest.raises(hw.SchemaError, match="1000"):
        schema_from_dict({"headwater": 1, "unit_cube": dimension})
    with pytest.raises(ValueError, match="1000"):
        hw.unit_cube(dimension)
    assert hw.unit_cube(1000).dimension == 1000


def test_half_a_character_in_a_schema(tmp_path: Path) -> None:
    """It can be loaded from JSON, and could not be written again."""
    for columns in ({HALF: hw.Number(0, 1)}, {"x": hw.Boolean(), f"a{HALF}": hw.Number(0, 1)}):
        with pytest.raises(hw.SchemaError, match="half a character") as caught:
            hw.Schema(columns)
        str(caught.value).encode()
    with pytest.raises(hw.SchemaError, match="half a character"):
        hw.Category("a", HALF)


@pytest.mark.parametrize("number", [HUGE, -HUGE, float("inf"), float("nan")])
def test_bounds_and_weights_that_are_no_floats(number: float) -> None:
    for make in (lambda: hw.Number(0, number), lambda: hw.Number(number, 0), lambda: hw.Boolean(weight=number)):
        with pytest.raises(hw.SchemaError):
            make()
    with pytest.raises(ValueError, match="epsilon must"):
        hw.Synthesizer(hw.unit_cube(1), epsilon=number)


def test_short_floats_as_bounds_do_not_warn() -> None:
    half, two, three = (cast(float, np.float16(number)) for number in (0.5, 2, 3))
    assert hw.Number(half, two, weight=three) == hw.Number(0.5, 2, weight=3)


# States and releases ------------------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], object]


def altered(data: bytes, change: Change, cut: int = 0) -> bytes:
    """A file with another header, under a checksum that matches; ``cut`` bytes of its arrays are left out."""
    banner, line, content = data[:-32].split(b"\n", 2)
    header = json.loads(line)
    change(header)
    body = b"\n".join([banner, json.dumps(header).encode(), content[: len(content) - cut]])
    return body + hashlib.sha256(body).digest()


def put(*path: Any) -> Change:  # noqa: ANN401 - keys, and last the value
    *keys, last, value = path

    def change(header: dict[str, Any]) -> None:
        holder: Any = header
        for key in keys:
            holder = holder[key]
        holder[last] = value

    return change


def without(name: str) -> Change:
    return lambda header: header.pop(name)


WRONG: list[Any] = [None, [], HUGE, "x", -1]
CHANGES = [
    *(put(name, value) for name in ("schema", "epsilon", "mechanism", "version", "key") for value in WRONG),
    *map(without, ("t", "schema", "epsilon", "mechanism", "version", "key", "public", "kind", "arrays")),
    put("public", "zz"), put("key", "00"), put("schema", {"headwater": 1, "unit_cube": 2**40}),
    put("arrays", 0, 2, [-1]), put("arrays", 0, 2, [2**61, 8]), put("arrays", 0, 2, [0.5]), put("arrays", 0, 2, "x"),
    put("arrays", 0, 1, "|O"), put("arrays", 0, 0, "other"), put("arrays", []), put("schema", "columns", {}),
]  # fmt: skip


@pytest.mark.parametrize("which", [3, 9], ids=["cascade", "paper"])
def test_a_state_is_guarded_by_its_checksum_its_version_and_the_shapes_of_its_arrays(
    which: int, tmp_path: Path
) -> None:
    """What its owner might have forged besides is not looked for: nobody else may write it."""
    data = seeds.states()[which]
    assert hw.Synthesizer.from_bytes(altered(data, lambda header: None)).to_bytes() == data
    wrong = [altered(data, change) for change in CHANGES]
    wrong += [altered(data, lambda header: None, cut) for cut in (1, 8, 64)]
    wrong += [data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :] for i in range(0, len(data), len(data) // 50)]
    for one in wrong:
        with pytest.raises(hw.FileRefusedError, match="these bytes: "):
            hw.Synthesizer.from_bytes(one)
    (tmp_path / "state.hw").write_bytes(altered(data, put("key", None)))
    with pytest.raises(hw.FileRefusedError, match=r"state\.hw: "):
        hw.Synthesizer.load(tmp_path / "state.hw")


def test_a_release_that_was_made_up_is_refused(tmp_path: Path) -> None:
    data, path = seeds.releases()[3], tmp_path / "release.hw"
    changes = [
        *(put(name, value) for name in ("t", "start", "seed", "epsilon", "schema") for value in (None, "x", -1, HUGE)),
        *map(without, ("t", "start", "spread", "seed", "kind", "schema")),
        put("t", 699), put("start", 1), put("spread", "x"), put("spread", -1.0), put("kind", "records"),
        put("mechanism", 5),
        put("arrays", 1, 2, [1]), put("arrays", 0, 1, "<i8"), put("arrays", 0, 2, [1, 2]),
    ]  # fmt: skip
    for change in changes:
        path.write_bytes(altered(data, change))
        with pytest.raises(hw.FileRefusedError, match=r"release\.hw: "):
            hw.Release.load(path)
    path.write_bytes(altered(data, lambda header: None))
    assert hw.Release.load(path).t == 700


# Cards --------------------------------------------------------------------------------------------------------------


ENTRIES = ["t", "rows", "epsilon", "span", "expected_error", "schema", "mechanism", "data"]
VALUES = ["[]", "-1", "true", DIGITS, f"{HUGE}", '{"typical": "x"}', '"../x"', '"\\ud800"', '"\\u0000"']
RIGHT = {("mechanism", text) for text in VALUES[6:]}
RIGHT |= {("t", f"{HUGE}"), ("rows", f"{HUGE}"), ("epsilon", "-1"), ("schema", VALUES[5])}
"""Values that are at least of the right kind."""


@pytest.mark.parametrize(("key", "value"), [(k, v) for k in ENTRIES for v in VALUES if (k, v) not in RIGHT])
def test_a_card_with_a_wrong_entry(tmp_path: Path, key: str, value: str) -> None:
    card, _, _ = seeds.cards()[0]
    text = json.dumps(card | {key: "HERE"}).replace('"HERE"', value)
    (tmp_path / "card.json").write_text(text)
    with pytest.raises(hw.FileRefusedError, match=r"card\.json: "):
        read_card(tmp_path)
    assert CliRunner().invoke(app, ["info", str(tmp_path)]).exit_code == Exit.STATE


# Files of records ---------------------------------------------------------------------------------------------------


def read_all(path: Path, schema: hw.Schema) -> None:
    with open_source(path, schema) as source:
        for batch in source:
            assert batch is not None
            schema.encode(batch.table)


def test_an_arrow_file_that_points_outside_of_itself(tmp_path: Path) -> None:
    """Reading it ended the process."""
    offsets = pa.py_buffer(np.array([0, 1 << 30, 2, 3], dtype=np.int32).tobytes())
    texts = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"abc")])
    path = tmp_path / "texts.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("x", pa.string())])) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([texts], names=["x"]))
    with pytest.raises(hw.TableError, match="cannot be read as Arrow"):
        read_all(path, hw.Schema(x=hw.Category("a", "b", other="b")))


def test_a_parquet_file_whose_names_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "names.parquet"
    path.write_bytes(seeds.columnar_files()[0][1].replace(b"member", b"me\xe6ber"))
    with pytest.raises(hw.TableError, match="cannot be read as Parquet"):
        read_all(path, seeds.TABLE)


def test_half_a_character_in_json(tmp_path: Path) -> None:
    path = tmp_path / "half.jsonl"
    path.write_text('{"x": "a"}\n{"x": "qZx7\\ud800"}\n')
    with pytest.raises(hw.TableError, match="half a character") as caught:
        read_all(path, hw.Schema(x=hw.Category("a", "b", other="b")))
    assert caught.value.line == 2
    assert "qZx7" not in str(caught.value)


# Stores -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "name", "content"),
    [
        (0, "records", 5),
        (0, "commits", None),
        (0, "receipts", [1, 2]),
        (0, "config", 7),
        (0, "positions", [1]),
        (0, "identity", 3),
        (1, "records", 4),
        (1, "records", "3"),
        (1, "records", float("inf")),
        (1, "commits", 9),
        (1, "receipts", ["a"]),
    ],
)
def test_a_store_whose_parts_were_made_up(tmp_path: Path, part: int, name: str, content: Any) -> None:  # noqa: ANN401 - plain values
    path = _store(tmp_path)
    change_store(path, part, heads(path.read_bytes())[part] | {name: content})
    with pytest.raises((StateDamagedError, hw.FileRefusedError)):
        read_state(path)


def _store(folder: Path) -> Path:
    path, synth = folder / "run.state", hw.Synthesizer.from_bytes(seeds.states()[3])
    with State.create(path, {}) as store:
        store.append(Batch(np.zeros((synth.t, 1), np.uint64)), {})
        store.snapshot(synth.t, synth.to_bytes())
        store.append(synth.encode(np.full((3, 2), 0.25)), {"row": 3}, b"receipt")
    return path
