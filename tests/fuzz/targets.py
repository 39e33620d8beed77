"""All targets. A target's inputs are valid ones made a little wrong; some stay valid, and then must work."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from headwater import Schema, SchemaError, TableError, unit_cube
from headwater.public.files import FileRefusedError
from headwater.public.folder import read_rows
from headwater.public.release import Release
from headwater.public.schema import schema_from_dict
from headwater.report.releases import find
from headwater.run import Schedule
from headwater.secret.batch import Batch
from headwater.secret.read.draft import draft as draft_file
from headwater.secret.read.source import open_source
from headwater.synthesizer import Synthesizer
from tests.fuzz import seeds
from tests.fuzz.arguments import ARGUMENTS
from tests.fuzz.mutate import mutate_bytes, mutate_file, mutate_value
from tests.fuzz.shells import SHELLS
from tests.fuzz.target import FoundError, Target

SECRETS = (seeds.MARK, seeds.NUMBER)
SMALL = 100_000  # releases that are drawn


# Schemas ------------------------------------------------------------------------------------------------------------


def load_schema(suffix: str) -> Callable[[bytes, Path], object]:
    def run(data: bytes, folder: Path) -> None:
        path = folder / f"schema{suffix}"
        path.write_bytes(data)
        schema = Schema.load(path)
        schema.save(path)
        if Schema.load(path) != schema:
            raise FoundError("a schema changes when it is saved and loaded")

    return run


def make_schema(rng: Random) -> Any:  # noqa: ANN401 - any plain values
    return mutate_value(rng.choice(seeds.schemas()), rng)


def use_schema(declared: Any, folder: Path) -> None:  # noqa: ANN401 - any plain values
    schema = schema_from_dict(declared)
    again = schema_from_dict(json.loads(json.dumps(schema.to_dict())))
    if again != schema:
        raise FoundError("a schema changes when it is written and read")
    if schema.dimension <= 60:
        schema.decode(np.full((1, schema.dimension), 0.3))


# States and releases ------------------------------------------------------------------------------------------------


def use_state(data: bytes, folder: Path) -> None:
    synth = Synthesizer.from_bytes(data)
    if synth.to_bytes() != Synthesizer.from_bytes(synth.to_bytes()).to_bytes():
        raise FoundError("a state changes when it is saved and loaded")
    if synth.t <= SMALL:
        release = synth.release()
        if len(release.points()) != synth.t:
            raise FoundError("a release of a loaded state has another number of points")
        synth.take(Batch(np.zeros((3, 1), dtype=np.uint64)))
        synth.release()


def use_release(data: bytes, folder: Path) -> None:
    path = folder / "release"
    path.write_bytes(data)
    release = Release.load(path)
    str(release), str(release.expected_error()), str(release.error_bound)
    if release.t - release.start <= SMALL:
        points = release.points()
        if points.shape != (release.t - release.start, release.schema.dimension):
            raise FoundError("a release has another number of points than it says")
        if points.size and not (points.min() >= 0 and points.max() <= 1):
            raise FoundError("a release has points outside of the cube")
        release.sample()
    release.save(path)


def make_card(rng: Random) -> tuple[bytes, str, bytes]:
    card, name, data = rng.choice(seeds.cards())
    if rng.random() < 0.3:
        return mutate_bytes(json.dumps(card).encode(), rng), name, data
    if rng.random() < 0.1:
        return json.dumps(card).encode(), name, mutate_bytes(data, rng)
    return json.dumps(mutate_value(card, rng)).encode(), name, data


def use_card(case: tuple[bytes, str, bytes], folder: Path) -> None:
    card, name, data = case
    place = folder / "release-000000000160"
    place.mkdir(exist_ok=True)
    (place / "card.json").write_bytes(card)
    (place / name).write_bytes(data)
    (found,) = find(folder)
    schema = schema_from_dict(found.card["schema"])
    read_rows(found.folder, found.card, schema)


# Files of records ---------------------------------------------------------------------------------------------------


def compressed_files() -> list[bytes]:
    """The kind of compression is read from the first bytes, as in the file itself."""
    return [squeeze(data) for data in seeds.csv_files()[:3] for squeeze in (gzip.compress, bz2.compress, lzma.compress)]


def columnar_files() -> list[bytes]:
    return [data for _, data in seeds.columnar_files()]


BEGINNINGS = {b"\x1f\x8b": ".csv.gz", b"BZ": ".csv.bz2", b"\xfd7": ".csv.xz", b"PA": ".parquet"}


def use_records(suffix: str) -> Callable[[bytes, Path], object]:
    """Read a file of records; ``suffix`` is what it is called if its first bytes do not say it."""

    def run(data: bytes, folder: Path) -> None:
        path, extra = folder / f"records{BEGINNINGS.get(data[:2], suffix)}", len(data) % 3 == 0
        path.write_bytes(data)
        # Blocks of 256 bytes make lines end anywhere in a block. A damaged archive can hold megabytes without a line
        # end; of those, blocks so small would be copied for minutes.
        size = 256 if len(data) % 8 == 0 and path.suffix == suffix else 1 << 16
        with open_source(path, seeds.TABLE, ignore_extra=extra, batch_rows=3, block_bytes=size) as source:
            for batch in source:
                if batch is None:
                    raise FoundError("a file that is not followed pauses")
                try:
                    points = seeds.TABLE.encode(batch.table)
                except TableError as error:
                    raise batch.with_line(error) from None
                if not (points.min(initial=0) >= 0 and points.max(initial=0) <= 1):
                    raise FoundError("points outside of the cube")

    return run


def use_cube(data: bytes, folder: Path) -> None:
    """Records without names."""
    path = folder / "cube.csv"
    path.write_bytes(data)
    with open_source(path, unit_cube(2), block_bytes=64) as source:
        for batch in source:
            if batch is not None:
                np.column_stack([column.to_numpy() for column in batch.table.columns])


def draft(data: bytes, folder: Path) -> None:
    path = folder / "draft.csv"
    path.write_bytes(data)
    draft_file(path)


def make_table(rng: Random) -> Any:  # noqa: ANN401 - any table
    rows = rng.choice(seeds.wrong_rows())
    if rng.random() < 0.4:
        return mutate_value(rows, rng)
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in seeds.TABLE.names}
    columns = mutate_value(columns, rng)
    if rng.random() < 0.3 and isinstance(columns, dict):
        name = rng.choice(list(columns) or [""])
        kind = rng.choice(["f4", "i1", "u8", "M8[ns]", "m8[h]", "U3", "S3", "c16", "?", "O"])
        columns[name] = np.zeros(rng.choice((0, 1, 4)), dtype=kind)
    return columns


def use_table(table: Any, folder: Path) -> None:  # noqa: ANN401 - any table
    points = seeds.TABLE.encode(table)
    if points.ndim != 2 or not (points.min(initial=0) >= 0 and points.max(initial=0) <= 1):
        raise FoundError("points outside of the cube")


def intervals() -> list[bytes]:
    return [b"10000", b"10_000", b"1,000", b"30s", b"15min", b"1h", b"1.5d", b"0.1s", b"1e3s", b"1", b"1e999d"]


def use_every(data: bytes, folder: Path) -> None:
    every = Schedule.parse(data.decode("utf-8", "replace"))
    if every.records is not None and every.next_due(5) is None:
        raise FoundError("records that leave no room")
    if not (every.records or 0) > 0 and not (every.seconds or 0) > 0:
        raise FoundError("neither records nor seconds")


def make_state(rng: Random) -> bytes:
    """One as it is, or with wrong bytes: beyond its checksum nobody but its owner can write one."""
    data = rng.choice(seeds.states())
    return data if rng.random() < 0.3 else mutate_bytes(data, rng, seeds.states())


def make_release(rng: Random) -> bytes:
    return mutate_file(rng.choice(seeds.releases()), rng, seeds.releases())


def cubes() -> list[bytes]:
    return [b"x,y\n0.25,0.5\n1,0\n", b"x,y\r\n0.25,0.5\r\n", b'"x","y"\n"0.918273","0.5"\n']


TABLE, REFUSED = (TableError,), (FileRefusedError,)
TARGETS = [
    Target("schema, TOML", load_schema(".toml"), (SchemaError,), corpus=seeds.toml_files),
    Target("schema, JSON", load_schema(".json"), (SchemaError,), corpus=seeds.schema_json_files),
    Target("schema, values", use_schema, (SchemaError,), make_schema),
    Target("state", use_state, REFUSED, make_state),
    Target("release", use_release, REFUSED, make_release),
    Target("card", use_card, (*REFUSED, SchemaError), make_card),
    Target("CSV", use_records(".csv"), TABLE, corpus=seeds.csv_files, secrets=SECRETS),
    Target("CSV, compressed", use_records(".csv"), TABLE, corpus=compressed_files, secrets=SECRETS),
    Target("CSV, no names", use_cube, TABLE, corpus=cubes, secrets=(seeds.NUMBER,)),
    Target("JSON lines", use_records(".jsonl"), TABLE, corpus=seeds.json_files, secrets=SECRETS),
    Target("Parquet and Arrow", use_records(".arrow"), TABLE, corpus=columnar_files),
    Target("draft of a schema", draft, (TableError, SchemaError), corpus=seeds.csv_files),
    Target("tables", use_table, TABLE, make_table, secrets=SECRETS),
    Target("publishing interval", use_every, corpus=intervals, arguments=True),
    *ARGUMENTS,
    *SHELLS,
]
