"""What was spent on which input is remembered, said, and asked about."""

from __future__ import annotations

import gzip
import json
import os
import pty
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headwater.cli.app import app
from headwater.cli.exit_codes import Exit
from headwater.run import spent
from tests.support.kept_runs import SCHEMA, VALUES

LINES = [f"{value:.6f}\n" for value in VALUES[:40]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "known"))
    monkeypatch.chdir(tmp_path)
    SCHEMA.save(tmp_path / "s.toml")
    (tmp_path / "in.csv").write_text("x\n" + "".join(LINES))
    return tmp_path


def command(*more: object, file: str = "in.csv") -> list[str]:
    words = [sys.executable, "-m", "headwater.cli", "run", file, "--schema", "s.toml", "--epsilon", "1.5", *more]
    return [str(word) for word in words]


def run(*more: object, **how: Any) -> tuple[int, str]:  # noqa: ANN401 - of a process
    done = CliRunner().invoke(app, command(*more, file=how.pop("file", "in.csv"))[3:], input=how.pop("given", ""))
    return done.exit_code, done.stderr


def test_another_run_on_the_same_records_says_what_they_cost_together_and_begins_only_if_asked_to(folder: Path) -> None:
    assert run("--out", "a") == (Exit.DONE, "")
    assert run("--out", "a") == (Exit.DONE, "")  # the same run goes on
    code, said = run("--out", "b")
    assert (code, (folder / "b").exists()) == (Exit.USAGE, False)
    assert "1 earlier run began with the same records and spent ε = 1.5" in said
    assert str(folder / "a") in said
    assert "ε = 3 are spent on them in all" in said
    assert "--again" in said
    code, said = run("--out", "b", "--again", "--delta", "1e-9")
    assert (code, "ε = 3, δ = 1e-09 are spent" in said) == (Exit.DONE, True)
    assert "2 earlier runs" in run("--out", "c")[1]
    assert "ε = 4.5" in run("--out", "c")[1]  # what began nothing has spent nothing


@pytest.mark.parametrize("how", ["compressed", "grown", "a folder", "standard input", "another schema", "line ends"])
def test_the_same_records_are_known_however_they_come(folder: Path, how: str) -> None:
    assert run("--out", "a")[0] == Exit.DONE
    text, given = (folder / "in.csv").read_text(), ""
    file = {"a folder": "dated", "compressed": "z.csv.gz", "standard input": "-"}.get(how, "other.csv")
    match how:
        case "compressed":
            (folder / "z.csv.gz").write_bytes(gzip.compress(text.encode()))
        case "grown":
            (folder / "other.csv").write_text(text + "0.5\n" * 2000)
        case "a folder":
            (folder / "dated").mkdir()
            (folder / "dated" / "1.csv").write_text(text)
            (folder / "dated" / "2.csv").write_text("x\n0.5\n")
        case "standard input":
            given = text
        case "another schema":
            (folder / "s.toml").write_text((folder / "s.toml").read_text().replace("columns.x", "columns.y"))
            (folder / "other.csv").write_text(text.replace("x\n", "y\n", 1))
        case "line ends":
            (folder / "other.csv").write_bytes(text.replace("\n", "\r\n").encode())
    code, said = run("--out", "b", file=file, given=given)
    assert (code, "--again" in said) == (Exit.USAGE, True), said


def test_other_records_a_refused_batch_and_a_seed_are_nothing_to_ask_about(folder: Path) -> None:
    (folder / "bad.csv").write_text("x\nabc\n" + "".join(LINES))
    for _ in range(2):
        assert run("--out", "a", file="bad.csv")[0] == Exit.INPUT
    assert spent.by_input() == []
    for place in ("b", "c"):
        assert run("--out", place, "--seed", 1)[0] == Exit.DONE
    assert spent.by_input() == []
    (folder / "other.csv").write_text("x\n" + "".join([*LINES[:9], "0.125\n", *LINES[10:]]))  # the tenth
    assert [run("--out", f"of-{file}", file=file)[0] for file in ("in.csv", "other.csv")] == [Exit.DONE, Exit.DONE]
    assert [len(runs) for runs in spent.by_input()] == [1, 1]


@pytest.mark.parametrize(("answer", "code"), [("y", Exit.DONE), ("n", Exit.USAGE)])
def test_at_a_terminal_it_asks(folder: Path, answer: str, code: Exit) -> None:
    assert run("--out", "a")[0] == Exit.DONE
    ours, theirs = pty.openpty()
    how: dict[str, Any] = {"stdin": theirs, "stdout": theirs, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command("--out", "b"), **how) as process:
        os.close(theirs)
        shown = b""
        while b"Begin all the same?" not in shown:
            shown += os.read(ours, 1 << 12)
        os.write(ours, f"{answer}\n".encode())
        drain = threading.Thread(target=_drain, args=(ours,))
        drain.start()
        _, errors = process.communicate(timeout=60)
        drain.join()
    assert process.returncode == code, errors
    assert (folder / "b").exists() == (code is Exit.DONE)


def _drain(handle: int) -> None:
    try:
        while os.read(handle, 1 << 12):
            pass
    except OSError:  # its other end was closed
        os.close(handle)


def test_runs_that_begin_at_once_see_each_other(folder: Path) -> None:
    """All of them are written down before any of them counts, so one at most begins unasked."""
    processes = [subprocess.Popen(command("--out", f"out{n}"), stderr=subprocess.DEVNULL) for n in range(3)]
    codes = sorted(process.wait() for process in processes)
    assert codes in ([0, 2, 2], [2, 2, 2])
    assert len(spent.by_input()) == codes.count(0)


def test_nobody_else_can_read_it_and_without_the_key_it_confirms_no_guess(folder: Path) -> None:
    run("--out", "a")
    home = spent.folder()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (home, *home.iterdir())}
    assert modes == {"headwater": 0o700, "spent.jsonl": 0o600, "spent.key": 0o600}
    (said,) = map(json.loads, (home / "spent.jsonl").read_text().splitlines())
    assert said["digests"].keys() == {"1", "10"}
    (home / "spent.jsonl").unlink()
    (home / "spent.key").unlink()
    run("--out", "b")
    (other,) = map(json.loads, (home / "spent.jsonl").read_text().splitlines())
    assert not {*said["digests"].values()} & {*other["digests"].values()}


def test_half_a_line_is_passed_over_and_a_ledger_that_cannot_be_written_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("--out", "a")
    entry = json.loads((spent.folder() / "spent.jsonl").read_text()) | {"run": "damaged"}
    damaged = [json.dumps(entry | {name: None}) for name in ("digests", "epsilon")]
    damaged += ["[" * 100_000, json.dumps(entry | {"digests": {"one": "1"}}), '{"run": "abc", "eps']
    with (spent.folder() / "spent.jsonl").open("a") as file:
        file.write("\n".join(damaged))
    assert run("--out", "b")[0] == Exit.USAGE
    assert run("--out", "b", "--again")[0] == Exit.DONE
    assert [len(runs) for runs in spent.by_input()] == [2]
    (folder / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "file"))
    code, said = run("--out", "c")
    assert (code, "cannot be written down" in said) == (Exit.DONE, True)


@pytest.mark.parametrize("size", [0, 100])
def test_a_key_that_is_damaged_is_made_anew(folder: Path, size: int) -> None:
    """A full disk may leave an empty one, under which anyone could test guesses."""
    run("--out", "a")
    key = spent.folder() / "spent.key"
    key.write_bytes(bytes(size))
    assert run("--out", "b") == (Exit.DONE, "")
    assert (len(key.read_bytes()), stat.S_IMODE(key.stat().st_mode)) == (32, 0o600)


def test_the_list(folder: Path) -> None:
    assert "nothing is written down" in CliRunner().invoke(app, ["spent"]).output
    run("--out", "a")
    run("--out", "b", "--again")
    lines = CliRunner().invoke(app, ["spent"]).output.splitlines()
    assert lines[0] == "ε = 3 on one input, by 2 runs:"
    assert [line.rsplit("  ", 1)[1] for line in lines[1:]] == [str(folder / "a"), str(folder / "b")]
