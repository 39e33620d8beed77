"""A full disk, a folder that cannot be written, a kill at any moment: what was kept stays, and nothing is torn."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import pytest
from headwater.run.store import Store
from numpy.typing import NDArray

from headwater.public.protocol import Kept
from headwater.run.lock import OutcomeUnknownError, StoreError

ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can mount, or become somebody else")


def part(number: int) -> NDArray[np.uint64]:
    """What the part of this number always holds."""
    return np.random.default_rng(number).integers(0, 1 << 60, (1000, 2), dtype=np.uint64)


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
def test_a_full_disk_keeps_what_was_kept_and_the_run_goes_on_when_there_is_room(small_disk: Path) -> None:
    store = Store.create(small_disk / "s", {})
    (small_disk / "filler").write_bytes(bytes(1 << 20))
    with pytest.raises(StoreError, match=r"the disk is full.*make room, then give the same command again"):
        append_many(store)
    kept = store.t // 1000
    assert kept > 5
    with pytest.raises(StoreError, match="full"):
        store.snapshot(store.t, bytes(2 << 20))
    assert_prefix(store, kept)
    store.close()
    with Store.open(small_disk / "s") as again:  # still full
        assert_prefix(again, kept)
        (small_disk / "filler").unlink()
        again.append(part(kept), {"part": kept})  # in the same opening
        assert_prefix(again, kept + 1)
    with Store.open(small_disk / "s") as again:
        assert_prefix(again, kept + 1)


class FailingDisk:
    """A connection whose commits fail: before they have happened, or after, as when the last sync fails."""

    def __init__(self, store: Store, *, after: bool, reads: bool = True) -> None:
        self._store, self._real, self._after, self._reads = store, store.connection, after, reads
        self.left = 1

    def __enter__(self) -> Self:
        self._store.connection = cast("sqlite3.Connection", self)
        return self

    def __exit__(self, *_: object) -> None:
        self._store.connection = self._real

    def execute(self, sql: str, *more: Any) -> sqlite3.Cursor:  # noqa: ANN401 - as there
        failed = self.left == 0
        if sql == "COMMIT" and not failed:
            self.left -= 1
            if self._after:
                self._real.execute(sql)
            raise self._error()
        if failed and not self._reads and sql != "ROLLBACK":
            raise self._error()
        return self._real.execute(sql, *more)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it is
        return getattr(self._real, name)

    def _error(self) -> sqlite3.OperationalError:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        return error


def test_a_commit_that_failed_and_has_happened_is_taken_as_done(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        with FailingDisk(store, after=True) as disk:
            store.append(part(0), {"part": 0})
            assert disk.left == 0
        assert_prefix(store, 1)
        store.append(part(1), {"part": 1})
    with Store.open(tmp_path / "s") as again:
        assert_prefix(again, 2)


def test_a_commit_that_failed_and_has_not_happened_kept_nothing(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        with FailingDisk(store, after=False), pytest.raises(StoreError, match="nothing of this step was kept"):
            store.append(part(0), {"part": 0})
        store.append(part(0), {"part": 0})
        assert_prefix(store, 1)


@pytest.mark.parametrize("after", [True, False])
def test_where_the_file_cannot_be_read_nobody_says_that_nothing_was_kept(tmp_path: Path, after: bool) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        with FailingDisk(store, after=after, reads=False), pytest.raises(OutcomeUnknownError, match="cannot be read"):
            store.append(part(0), {"part": 0})
        if not after:
            store.append(part(0), {"part": 0})
        assert_prefix(store, 1)


def append_many(store: Store) -> None:
    for number in range(1000):
        store.append(part(number), {"part": number})


@ROOT
def test_a_disk_that_is_full_from_the_start_leaves_no_state_behind(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes((3 << 20) - 8192))
    with pytest.raises(StoreError, match="full"):
        Store.create(small_disk / "s", {})
    assert not (small_disk / "s").exists()
    (small_disk / "filler").unlink()
    Store.create(small_disk / "s", {}).close()


def assert_prefix(store: Store, parts: int) -> None:
    found = store.load()
    assert (found.t, len(found.journal)) == (1000 * parts, parts)
    assert found.position == ({"part": parts - 1} if parts else {})
    for number, entry in enumerate(found.journal):
        np.testing.assert_array_equal(entry.rows, part(number))


def test_a_limit_on_the_size_of_files_is_like_a_full_disk(tmp_path: Path) -> None:
    Store.create(tmp_path / "s", {}).close()
    code = """if True:
        import resource, signal, sys
        import numpy as np
        from headwater.run.store import Store, StoreError
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
        with Store.open(sys.argv[1]) as store:
            try:
                for number in range(1000):
                    data = np.random.default_rng(number).integers(0, 1 << 60, (1000, 2), dtype=np.uint64)
                    store.append(data, {"part": number})
            except StoreError as error:
                print(store.t // 1000, error)
    """
    parts, _, message = run(code, tmp_path / "s").stdout.partition(" ")
    assert "nothing of this step was kept" in message
    with Store.open(tmp_path / "s") as store:
        assert_prefix(store, int(parts))
        store.append(part(int(parts)), {"part": int(parts)})
    assert int(parts) > 5


def run(code: str, *arguments: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True)


@ROOT
@pytest.mark.parametrize("what", ["folder", "file"])
def test_somebody_without_permission_is_told_so(tmp_path: Path, what: str) -> None:
    """As another user: in a folder that is not theirs, and with a file that is not theirs."""
    folder = tmp_path / "folder"
    Store.create(folder / "s", {}).close()
    for path in (folder, *folder.iterdir()):
        os.chown(path, 65534, 65534)
    if what == "folder":
        folder.chmod(0o500)  # its file can be written, but no journal beside it
        (folder / "s.lock").unlink()
    else:
        os.chown(folder / "s", 0, 0)
    for above in (tmp_path, *tmp_path.parents[:3]):
        above.chmod(0o755)
    code = """if True:
        import os, sys
        import sqlite3, numpy
        from headwater.run.store import Store, StoreError
        os.chdir(sys.argv[1])
        os.setuid(65534)
        for call in (lambda: Store.open("s"), lambda: Store.create("new", {})):
            try:
                call().close()
            except StoreError as error:
                print(type(error).__name__, error.problem, "|", error.remedy)
    """
    lines = run(code, folder).stdout.splitlines()
    assert len(lines) == (2 if what == "folder" else 1)
    assert all("writable for this user, then give the same command again" in line for line in lines)
    folder.chmod(0o700)
    os.chown(folder / "s", 0, 0)
    Store.open(folder / "s").close()


WRITERS = """if True:
    # Forks a writer for every line that comes in: a process is there at once, with everything imported.
    import os, sys
    import numpy as np
    from headwater.run.store import Store

    def write():
        with Store.open(sys.argv[1]) as store:
            number = store.t // 1000
            print(os.getpid(), flush=True)
            while True:
                if number % 7 == 6 and store.journal_bytes:
                    store.snapshot(store.t, number.to_bytes(4, "big") * 50_000)
                rows = np.random.default_rng(number).integers(0, 1 << 60, (1000, 2), dtype=np.uint64)
                store.append(rows, {"part": number})
                number += 1

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            write()
        os.waitpid(child, 0)
        print("dead", flush=True)
"""


def test_a_kill_at_any_moment_leaves_whole_commits_only(tmp_path: Path) -> None:
    """A writer is killed 100 times at random moments; each time what is there is a beginning of its sequence."""
    path = tmp_path / "s"
    Store.create(path, {}).close()
    chance, last, seen, patience = random.Random(0), 0, set(), 1.0  # noqa: S311 - a test
    command = [sys.executable, "-c", WRITERS, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as writers:
        assert writers.stdin is not None
        assert writers.stdout is not None
        for _ in range(100):
            writers.stdin.write("one more\n")
            writers.stdin.flush()
            process = int(writers.stdout.readline())
            time.sleep(patience * chance.uniform(0.0, 0.04))
            os.kill(process, signal.SIGKILL)
            assert writers.stdout.readline() == "dead\n"
            with Store.open(path) as store:
                kept = store.load()
            assert kept.t >= last
            if kept.t == last:  # a busy machine: give the next one more time
                patience *= 1.1
            _check(kept)
            last = kept.t
            seen.add(last)
        writers.stdin.close()
    assert len(seen) > 10  # the writer did come to write, and was stopped in many places


def _check(kept: Kept) -> None:
    parts = kept.t // 1000
    first = parts - len(kept.journal)
    assert kept.position == ({"part": parts - 1} if parts else {})
    assert (kept.snapshot is None) == (first == 0)
    if kept.snapshot is not None:
        assert kept.snapshot[:2] == (1000 * first, first.to_bytes(4, "big") * 50_000)
    for number, entry in enumerate(kept.journal, first):
        np.testing.assert_array_equal(entry.rows, part(number))


def test_a_kill_while_the_state_is_made_leaves_none_or_a_whole_one(tmp_path: Path) -> None:
    """Leftovers of an attempt that was killed do not stop the next one."""
    (tmp_path / ".s.new").write_bytes(b"half a state")
    (tmp_path / ".s.new-journal").write_bytes(b"half a journal")
    Store.create(tmp_path / "s", {}).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s", "s.lock"]


def test_an_interrupt_in_the_middle_of_a_commit_undoes_it(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        store.append(np.zeros((1, 1), np.uint8))

        def interrupted() -> None:
            with store.transaction():
                store.connection.execute("DELETE FROM journal")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert store.load().t == 1
        store.append(np.zeros((1, 1), np.uint8))
        assert store.load().t == 2
