"""Following a file that grows, a folder that fills, and a pipe."""

import io
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater import Category, Integer, Schema, TableError
from headwater.secret.read import source as source_module
from headwater.secret.read.batch import Batch, Position
from headwater.secret.read.lines import InputChangedError
from headwater.secret.read.lines import Pipe as StandardInput
from headwater.secret.read.source import Source, open_source

SCHEMA = Schema(n=Integer(0, 10**6))
POLL = 0.01

Pipe = Callable[[], io.FileIO]


def follow(path: Path, position: Position | None = None) -> Source:
    return open_source(path, SCHEMA, position, follow=True, poll_seconds=POLL)


def numbers_of(batch: Batch) -> list[int]:
    return [int(text) for text in batch.table["n"].to_pylist()]


def until(source: Iterator[Any], done: Callable[[list[int]], bool], seconds: float = 10.0) -> list[int]:
    """Numbers from a source until ``done`` says so."""
    numbers: list[int] = []
    end = time.monotonic() + seconds
    while not done(numbers):
        assert time.monotonic() < end, f"only {len(numbers)} records arrived"
        batch = next(source)
        if batch is not None:
            numbers += numbers_of(batch)
    return numbers


def test_a_growing_file_is_read_as_it_grows(tmp_path: Path) -> None:
    """A writer that never writes whole lines at once: every record arrives once, whole and in order."""
    path = tmp_path / "a.csv"
    path.write_text("")

    def write() -> None:
        text = "n\n" + "".join(f"{n}\n" for n in range(2000))
        with open(path, "a", buffering=1) as file:
            for start in range(0, len(text), 37):
                file.write(text[start : start + 37])
                file.flush()
                time.sleep(0.0005)

    writer = threading.Thread(target=write)
    writer.start()
    with follow(path) as source:
        assert until(source, lambda numbers: len(numbers) >= 2000) == list(range(2000))
    writer.join()


@pytest.mark.parametrize("text", [b"\n", b"x\n", b"\xef\n", b"{}\n"])
def test_a_first_line_that_is_shorter_than_a_byte_order_mark_is_not_held_back(tmp_path: Path, text: bytes) -> None:
    """Otherwise the length of one record would decide when it is counted."""
    (tmp_path / "a.jsonl").write_bytes(text)
    with open_source(tmp_path / "a.jsonl", SCHEMA, follow=True, poll_seconds=POLL, bad_rows="null") as source:
        batch = next(source)
    assert batch is not None
    assert batch.records == 1


def test_a_half_line_waits_for_its_end_and_idle_polls_say_so(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n\n1\n2")
    with follow(path) as source:
        assert until(source, lambda numbers: len(numbers) == 1) == [1]
        assert next(source) is None
        with open(path, "a") as file:
            file.write("3\n")
        assert until(source, lambda numbers: len(numbers) == 1) == [23]


def test_a_folder_that_fills_is_read_in_the_order_of_names_and_a_new_file_whatever_its_name(tmp_path: Path) -> None:
    with follow(tmp_path) as source:
        assert next(source) is None  # nothing there yet
        (tmp_path / "1.csv").write_text("n\n1\n")
        assert until(source, lambda numbers: len(numbers) == 1) == [1]
        with open(tmp_path / "1.csv", "a") as file:
            file.write("2\n3")
        assert until(source, lambda numbers: len(numbers) == 1) == [2]
        (tmp_path / "2.csv").write_text("n\n4\n")
        assert until(source, lambda numbers: len(numbers) == 2) == [3, 4]  # the next file says that 1.csv is complete
        (tmp_path / "0.csv").write_text("n\n5\n")
        assert until(source, lambda numbers: len(numbers) == 1) == [5]


def test_a_followed_file_goes_on_from_a_position_and_when_it_is_written_anew_with_its_content(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n\n1\n2\n")
    with open_source(path, SCHEMA, batch_rows=1) as source:
        batch = next(source)
    assert batch is not None
    with follow(path, batch.position) as source:
        assert until(source, lambda numbers: len(numbers) == 1) == [2]
        (tmp_path / "b").write_text("n\n1\n2\n3\n")
        os.replace(tmp_path / "b", path)
        assert until(source, lambda numbers: len(numbers) == 1) == [3]


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    """Standard input as a pipe: what is written to the result comes in."""
    ends = []

    def make() -> io.FileIO:
        out, into = os.pipe()
        reading, writing = io.FileIO(out, "rb"), io.FileIO(into, "wb")
        ends.extend([reading, writing])
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=reading))
        return writing

    yield make
    for end in ends:
        end.close()


def piped(pipe: Pipe, data: bytes, position: Position | None = None, **options: Any) -> Source:  # noqa: ANN401
    """Of a pipe that holds this and is closed."""
    with pipe() as writing:
        writing.write(data)
    return open_source("-", options.pop("schema", SCHEMA), position, **{"poll_seconds": POLL} | options)


def all_of(source: Source) -> list[int]:
    with source:
        return [n for batch in source if batch for n in numbers_of(batch)]


def test_a_pipe_is_read_to_its_end_and_so_is_input_that_is_no_real_file(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all_of(piped(pipe, b"n\n1\n2\n3")) == [1, 2, 3]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"n\n1\n2\n")))
    assert all_of(open_source("-", SCHEMA)) == [1, 2]


def test_a_pipe_that_pauses_hands_on_what_it_has_but_no_half_line(pipe: Pipe) -> None:
    writing = pipe()
    writing.write(b"n\n1\n2")
    with open_source("-", SCHEMA, poll_seconds=POLL) as source:
        assert until(source, lambda numbers: len(numbers) == 1) == [1]
        assert next(source) is None
        writing.write(b"5\n")
        assert until(source, lambda numbers: len(numbers) == 1) == [25]
        writing.close()
        assert list(source) == []


@pytest.mark.parametrize("encoding", [None, "utf-16-le"])
def test_a_pipe_that_is_stopped_hands_on_every_record_that_was_read_and_says_what_is_left(
    pipe: Pipe, encoding: str | None
) -> None:
    """Also what is in the middle of a batch, or was converted and not taken; and nothing that is still in the pipe."""
    writing = pipe()
    records = [f"{n}\n" for n in range(150)]
    writing.write("".join(["n\n", *records, "12"]).encode(encoding or "utf-8"))
    with open_source("-", SCHEMA, poll_seconds=POLL, batch_rows=20, encoding=encoding) as source:
        first = next(source)
        assert first is not None
        source.stop()
        writing.write("345\n6\n".encode(encoding or "utf-8"))
        batches = [first, *(batch for batch in source if batch is not None)]
        assert [n for batch in batches for n in numbers_of(batch)] == list(range(150))
        assert batches[-1].position["records"] == 150
        assert source.unfinished == 2


def test_a_batch_of_a_steady_pipe_ends_soon_and_after_a_number_of_records(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record every tenth of the time after which a pipe is idle, when batches had become large."""
    clock, read = [0.0], StandardInput.read
    writing = pipe()
    with open_source("-", SCHEMA, poll_seconds=POLL) as source:
        writing.write(b"n\n")
        source._size = 1 << 17

        def steady(self: StandardInput, size: int, wait: float = 0) -> bytes:
            clock[0] += POLL / 10
            writing.write(b"5\n")
            return read(self, size, wait)

        monkeypatch.setattr(StandardInput, "read", steady)
        monkeypatch.setattr(source_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
        sizes = [len(batch.table) for batch in itertools.islice(source, 12) if batch is not None]
    assert sizes == [64] * 12


@pytest.mark.parametrize("by_handle", [False, True])
def test_a_pipe_that_has_a_path_is_read_like_standard_input(tmp_path: Path, by_handle: bool) -> None:
    """A named pipe, or what a shell gives for a process: it is opened once, and nobody looks whether it changed."""
    path: Path | str = tmp_path / "a.csv"
    if by_handle:
        out, into = os.pipe()
        path = f"/dev/fd/{out}"
    else:
        os.mkfifo(path)

    def write() -> None:
        with open(into if by_handle else path, "wb", buffering=0) as file:
            file.write(b"n\n1\n2")
            time.sleep(1)  # far longer than it takes to look, also on a busy machine
            file.write(b"3\n" + b"4\n" * 5000)

    writer = threading.Thread(target=write)
    writer.start()
    with open_source(path, SCHEMA, format="csv", poll_seconds=POLL) as source:
        batches = [None if batch is None else numbers_of(batch) for batch in source]
    writer.join()
    if by_handle:
        os.close(out)
    assert next(batch for batch in batches if batch) == [1]
    assert None in batches
    assert [n for batch in batches if batch for n in batch] == [1, 23, *[4] * 5000]


def test_pipes_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv.gz"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match=r"cannot be read together"):
        open_source([tmp_path / "a.csv", tmp_path / "c.csv"], SCHEMA)
    with pytest.raises(TableError, match=r"a compressed pipe; decompress"):
        open_source(tmp_path / "b.csv.gz", SCHEMA)
    with pytest.raises(TableError, match=r"a pipe inside a folder; name the pipe itself"):
        open_source(tmp_path, SCHEMA)


def first_position(pipe: Pipe, data: bytes, rows: int, **options: Any) -> Position:  # noqa: ANN401
    with piped(pipe, data, batch_rows=rows, **options) as source:
        batch = next(source)
    assert batch is not None
    return batch.position


@pytest.mark.parametrize("rows", [1, 2])
def test_a_pipe_that_starts_again_is_skipped_and_checked(pipe: Pipe, rows: int) -> None:
    position = first_position(pipe, b"n\n1\n2\n", rows)
    assert all_of(piped(pipe, b"n\n1\n2\n3\n", position)) == [2, 3][rows - 1 :]
    for other in (b"n\n7\n2\n3\n", b"n\n1\n" * (rows - 1)):
        with pytest.raises(InputChangedError, match=r"standard input.*stdin_continues"):
            all_of(piped(pipe, other, position))


def test_a_pipe_may_go_on_with_new_records(pipe: Pipe) -> None:
    position = first_position(pipe, b"n\n1\n2\n", 2)
    with piped(pipe, b"3\n4\n", position, stdin_continues=True) as source:
        batch = next(source)
    assert batch is not None
    assert numbers_of(batch) == [3, 4]
    assert batch.position["records"] == 4
    with pytest.raises(InputChangedError, match="stdin_continues"):
        all_of(piped(pipe, b"", batch.position))


def test_a_pipe_that_goes_on_begins_with_a_record_even_if_it_reads_like_the_header(pipe: Pipe) -> None:
    schema, text = Schema(colour=Category("red", "colour")), b"colour\nred\n"
    position = first_position(pipe, text, 9, schema=schema)
    with piped(pipe, text, position, schema=schema, stdin_continues=True) as source:
        assert [batch.table["colour"].to_pylist() for batch in source if batch] == [["colour", "red"]]


def test_batches_of_a_slow_pipe_stay_small_and_those_of_a_fast_one_grow(pipe: Pipe) -> None:
    """So the clock is looked at often enough, and always after a number of records."""
    with piped(pipe, b"n\n" + b"1\n" * 5000, poll_seconds=60) as source:
        sizes = [batch.table.num_rows for batch in source if batch]
    assert sizes == [64, 128, 256, 512, 1024, 2048, 5000 - 4032]
    writing = pipe()
    writing.write(b"n\n")

    def write() -> None:
        for _ in range(120):
            writing.write(b"1\n")
            time.sleep(0.005)
        writing.close()

    writer = threading.Thread(target=write)
    writer.start()
    with open_source("-", SCHEMA, poll_seconds=0.2) as source:
        sizes = [batch.table.num_rows for batch in source if batch]
    writer.join()
    assert sum(sizes) == 120
    assert sizes[0] == 64
    assert max(sizes[1:]) <= 32
