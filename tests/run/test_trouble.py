"""A full disk, a folder that cannot be written, a kill at any moment: what was kept stays, and nothing is torn."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headwater.run.lock import OutcomeUnknownError, StoreError
from headwater.run.state import State
from tests.support.kept_runs import failing, kill, open_run, take, write

ROOT_FOLDER = Path(__file__).parents[2]
ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can mount, or become somebody else")
WRITE = """if True:
    import os, resource, signal, sys
    from headwater.run.lock import StoreError
    from headwater.run.state import State
    from tests.support.kept_runs import write
"""


def assert_prefix(state: State, parts: int) -> None:
    """Only the first so many parts are there, whole."""
    t, data, journal = state.load()
    first = t // 1000
    assert (state.t, len(journal)) == (1000 * parts, parts - first)
    assert state.position("part") == (parts - 1 if parts else None)
    assert data == first.to_bytes(4, "big") * (50_000 if first else 0)
    for number, (_, batch) in enumerate(journal, first):
        rows = np.random.default_rng(number).integers(0, 1 << 60, (1000, 2), dtype=np.uint64)
        np.testing.assert_array_equal(batch.rows, rows)


def other_process(code: str, *arguments: Path) -> str:
    command = [sys.executable, "-c", WRITE + code, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT_FOLDER, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S607 - fixed words


@ROOT
def test_a_full_disk_keeps_what_was_kept_and_the_state_goes_on_when_there_is_room(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes((3 << 20) - 4096))
    with pytest.raises(StoreError, match="full"):
        State.create(small_disk / "s", {})
    assert not (small_disk / "s").exists()
    filler.write_bytes(bytes(1 << 20))
    state = State.create(small_disk / "s", {})
    with pytest.raises(StoreError, match=r"the disk is full.*make room, then give the same"):  # noqa: PT012
        for number in range(1000):
            write(state, number)
    kept = state.t // 1000
    assert kept > 5
    with pytest.raises(StoreError, match="full"):
        state.snapshot(state.t, bytes(2 << 20))
    assert_prefix(state, kept)
    state.close()
    with State.open(small_disk / "s") as again:  # still full
        assert_prefix(again, kept)
        filler.unlink()
        write(again, kept)  # in the same opening
        assert_prefix(again, kept + 1)


@ROOT
def test_a_release_for_whose_measurements_there_is_no_room_is_not_shown(small_disk: Path) -> None:
    """A service gets the error, and the same release once there is room; what is there then was written once."""
    run = open_run(small_disk, mechanism="paper")
    take(run, 0, 1)
    run.release()
    run.take({"x": np.random.default_rng(1).random(20_000)})
    (small_disk / "filler").write_bytes(bytes(3 << 20)[: _room(small_disk)])
    before = (small_disk / "run.state.measured").stat().st_size
    for _ in range(2):
        with pytest.raises(StoreError, match="full"):
            run.release()
    (small_disk / "filler").unlink()
    assert run.release().t == 20_001
    kill(run)
    assert (small_disk / "run.state.measured").stat().st_size > before
    with open_run(small_disk, mechanism="paper") as run:
        assert run.release().t == 20_001


def _room(folder: Path) -> int:
    return os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize


def test_where_the_disk_fails_nothing_was_kept_or_the_file_says_what_was(tmp_path: Path) -> None:
    """A run then goes on from what its state says, in the same process and in another one."""
    run = open_run(tmp_path)
    take(run, 0, 100)
    with failing(lasting=False), pytest.raises(StoreError, match="nothing of this step was kept"):
        take(run, 100, 200)
    assert run.t == 100
    with failing(lasting=True), pytest.raises(OutcomeUnknownError, match="until it is read again"):
        take(run, 100, 200)
    reached = run.t
    take(run, reached, 300)
    assert run.release().t == 300
    kill(run)
    with open_run(tmp_path) as again:
        assert (reached, again.t) == (100, 300)


def test_a_snapshot_that_cannot_be_opened_again_is_opened_later(tmp_path: Path) -> None:
    """As where a service has too many files open for a moment: the next step is kept, in the same process."""
    with State.create(tmp_path / "s", {}) as state, pytest.MonkeyPatch.context() as patch:
        real = os.open
        patch.setattr(os, "open", lambda path, *more: real("/none" if path == state.path else path, *more))
        with pytest.raises(StoreError, match="nothing of this step was kept"):
            state.snapshot(0, b"")
        patch.undo()
        handles = len(os.listdir("/proc/self/fd"))
        write(state, 0)
        assert_prefix(state, 1)
        assert len(os.listdir("/proc/self/fd")) == handles


def test_a_limit_on_the_size_of_files_is_like_a_full_disk(tmp_path: Path) -> None:
    State.create(tmp_path / "s", {}).close()
    code = """
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    with State.open(sys.argv[1]) as state:
        try:
            for number in range(1000):
                write(state, number)
        except StoreError as error:
            print(state.t // 1000, error)
    """
    parts, _, message = other_process(code, tmp_path / "s").partition(" ")
    assert "nothing of this step was kept" in message
    assert int(parts) > 5
    with State.open(tmp_path / "s") as state:
        assert_prefix(state, int(parts))
        write(state, int(parts))


@ROOT
@pytest.mark.parametrize("what", ["folder", "file"])
def test_somebody_without_permission_is_told_so(tmp_path: Path, what: str) -> None:
    """As another user: in a folder that is not theirs, and with a file that is not theirs."""
    folder = tmp_path / "folder"
    State.create(folder / "s", {}).close()
    for path in (folder, *folder.iterdir()):
        os.chown(path, 65534, 65534)
    if what == "folder":
        folder.chmod(0o500)  # its file can be written, but no journal beside it
        (folder / "s.lock").unlink()
    else:
        os.chown(folder / "s", 0, 0)
    for above in (tmp_path, *tmp_path.parents[:3]):
        above.chmod(0o755)
    code = """
    os.chdir(sys.argv[1])
    os.setuid(65534)
    for call in (lambda: State.open("s"), lambda: State.create("new", {})):
        try:
            call().close()
        except StoreError as error:
            print(type(error).__name__, error.problem, "|", error.remedy)
    """
    lines = other_process(code, folder).splitlines()
    assert len(lines) == (2 if what == "folder" else 1)
    assert all("writable for this user" in line for line in lines)
    folder.chmod(0o700)
    os.chown(folder / "s", 0, 0)
    State.open(folder / "s").close()


def test_a_kill_at_any_moment_leaves_whole_commits_only(tmp_path: Path) -> None:
    """A writer is killed 100 times at random moments; each time what is there is a beginning of its sequence."""
    code = """
    for line in sys.stdin:  # forks a writer for every line: a process is there at once, with everything imported
        child = os.fork()
        if child == 0:
            with State.open(sys.argv[1]) as state:
                print(os.getpid(), flush=True)
                while True:
                    number = state.t // 1000
                    if number % 7 == 6 and state.has_journal:
                        state.snapshot(state.t, number.to_bytes(4, "big") * 50_000)
                    write(state, number)
        os.waitpid(child, 0)
        print("dead", flush=True)
    """
    path, last, seen, patience = tmp_path / "s", 0, set[int](), 1.0
    (tmp_path / ".s.new").write_bytes(b"half a state, left by an attempt that was killed")
    State.create(path, {}).close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["s", "s.lock"]
    chance, pipe = random.Random(0), subprocess.PIPE  # noqa: S311 - a test
    command = [sys.executable, "-c", WRITE + code, str(path)]
    with subprocess.Popen(command, cwd=ROOT_FOLDER, stdin=pipe, stdout=pipe, text=True) as writers:
        assert writers.stdin is not None
        assert writers.stdout is not None
        for _ in range(100):
            writers.stdin.write("one more\n")
            writers.stdin.flush()
            process = int(writers.stdout.readline())
            time.sleep(patience * chance.uniform(0.0, 0.04))
            os.kill(process, signal.SIGKILL)
            assert writers.stdout.readline() == "dead\n"
            with State.open(path) as state:
                assert state.t >= last
                patience *= 1.1 if state.t == last else 1  # a busy machine: give the next one more time
                last = state.t
                assert_prefix(state, last // 1000)
            seen.add(last)
        writers.stdin.close()
    assert len(seen) > 10  # the writer did come to write, and was stopped in many places
