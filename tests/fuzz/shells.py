"""Slower targets: states of runs, and the command line."""

from __future__ import annotations

import os
import shutil
from contextlib import chdir
from pathlib import Path
from random import Random
from typing import Any

from typer.testing import CliRunner

from headwater.cli.app import app
from headwater.cli.exit_codes import Exit
from headwater.public.files import FileRefusedError
from headwater.run.frames import framed, read_frames
from headwater.run.lock import StoreError
from headwater.run.restore import read_state
from headwater.run.state import BANNER, State
from tests.fuzz import seeds
from tests.fuzz.mutate import mutate_bytes, mutate_value
from tests.fuzz.target import FoundError, Target

Change = tuple[str, Any]


def make_store(rng: Random) -> Change:
    """Wrong bytes, or wrong heads under checksums that match."""
    which = rng.random()
    if which < 0.5:
        data = bytearray(seeds.stores()[0])
        for _ in range(rng.choice((1, 3, 10))):  # most of a file is empty: change what is not
            data[rng.choice(_used())] = rng.randrange(256)
        return "bytes", bytes(data) if which < 0.4 else mutate_bytes(bytes(data), rng)
    part = int(which < 0.85)
    return str(part), mutate_value(heads()[part], rng)


def _used() -> list[int]:
    if not _places:
        _places.extend(i for i, byte in enumerate(seeds.stores()[0]) if byte)
    return _places


_places: list[int] = []


def use_store(change: Change, folder: Path) -> None:
    what, content = change
    path = folder / "run.state"
    for old in folder.glob("run.state*"):
        old.unlink()
    path.write_bytes(content if what == "bytes" else seeds.stores()[0])
    os.chmod(path, 0o600)
    if what != "bytes":
        change_store(path, int(what), content)
    with State.open(path, allow_copy=True) as store:
        store.load()
        _ = store.config, store.releases()
    synth, _ = read_state(path)
    synth.release()


def heads(data: bytes | None = None) -> list[Any]:
    """What the frames of a store say."""
    return [frame.header for frame in read_frames(Path(), data or seeds.stores()[0], BANNER)]


def change_store(path: Path, part: int, content: object) -> None:
    """Another head under a checksum that matches."""
    frames = list(read_frames(path, path.read_bytes(), BANNER))
    heads = [content if number == part else frame.header for number, frame in enumerate(frames)]
    path.write_bytes(b"".join(framed(BANNER, head, frame.arrays) for head, frame in zip(heads, frames, strict=True)))  # type: ignore[arg-type]


COMMANDS: dict[str, list[str]] = {
    "run": [
        "t.csv",
        "--schema",
        "t.toml",
        "--epsilon",
        "1",
        "--out",
        "o",
        "--every",
        "3",
        "--no-state",
        "--format",
        "csv",
    ],
    "release": ["run.state", "--out", "o", "--last", "5", "--since", "2", "--format", "parquet"],
    "report": ["o", "--out", "r.html", "--against", "t.csv", "--pair", "size,age"],
    "info": ["t.toml", "run.state", "o", "--plan"],
    "schema": ["t.csv", "--out", "new.toml", "--input-format", "jsonl", "--delimiter", ";"],
    "evaluate": ["t.csv", "t.csv", "--schema", "t.toml", "--json"],
    "audit": ["--runs", "3", "--only", "none"],
}
WORDS = [
    "--help", "--version", "-h", "--", "-", "", " ", "\0", "é", "--epsilon", "--epsilon=0", "nan", "inf", "-1", "1e999",
    "0", "10000000000000000000000", "t.csv", "t.toml", "nothing.csv", "run.state", ".", "/", "..", "t.json",
    "--seed", "5",
    "--mechanism", "paper", "pmm", "--every", "1h", "0s", "--delimiter", ",,", "\t", "--input-format", "csv", "xml",
    "--ignore-extra", "--stdin-continues", "--allow-copy", "--no-state", "--state", "x.state", "--last=0", "--since=-1",
    "[bold]", "[/]", "qZx7",
]  # fmt: skip


def make_command(rng: Random) -> list[str]:
    name = rng.choice(list(COMMANDS))
    words = list(COMMANDS[name])
    if rng.random() < 0.5:
        words = words[: rng.randint(0, len(words))]
    for _ in range(rng.randrange(4)):
        place = rng.randint(0, len(words))
        match rng.randrange(4):
            case 0 if words:
                del words[place % len(words)]
            case 1 if words:
                changed = mutate_bytes(words[place % len(words)].encode(), rng).decode("utf-8", "replace")
                words[place % len(words)] = changed
            case _:
                words.insert(place, rng.choice(WORDS))
    # It would wait for ever, write into the machine, or take minutes: none of that is about parsing.
    harmless = [word for word in words if not word.startswith(("--f", "/", "~", ".."))]
    return [name if rng.random() < 0.95 else rng.choice(WORDS), *harmless]


def use_command(words: list[str], folder: Path) -> None:
    place = folder / "cli"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / "t.csv").write_bytes(seeds.csv_files()[0])
    (place / "t.toml").write_bytes(seeds.toml_files()[0])
    (place / "run.state").write_bytes(seeds.stores()[0])
    os.chmod(place / "run.state", 0o600)
    if words[:1] == ["audit"] and "--help" not in words:
        words = ["audit", "--runs", "3", "--only", "none", *words[1:]]
    with chdir(place):
        result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code == Exit.BUG or result.exit_code not in set(Exit):
        said = result.output.strip().splitlines()[-1:] if result.output.strip() else []
        raise FoundError(f"exit code {result.exit_code}: {' '.join(said)[:90]}")


SHELLS = [
    Target("store", use_store, (StoreError, FileRefusedError), make_store),
    Target("command line", use_command, make=make_command, secrets=(seeds.MARK,)),
]
