"""One owner: no second process, no second thread, no forked child."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from headwater.run.store import Store

from headwater.run.lock import StateInUseError, StoreError

FORKS = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forking beside threads is the point

HOLD = """if True:
    import sys, time
    from headwater.run.store import Store
    store = Store.open(sys.argv[1])
    print("open", flush=True)
    time.sleep(60)
"""


@contextmanager
def held_by_another_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Store.create(tmp_path / "s", {}) as store:
        store.append(np.zeros((1, 1), np.uint8))
    return tmp_path / "s"


def test_a_second_process_is_refused_at_once_and_a_kill_frees_the_state(path: Path) -> None:
    with held_by_another_process(path) as process:
        begin = time.monotonic()
        with pytest.raises(StateInUseError, match=r"another process or thread.*let it end first"):
            Store.open(path)
        assert time.monotonic() - begin < 1
        process.send_signal(signal.SIGKILL)
        process.wait()
        with Store.open(path) as store:
            assert store.t == 1


def test_the_guard_holds_when_the_lock_file_is_removed(path: Path) -> None:
    with held_by_another_process(path):
        path.with_name("s.lock").unlink()
        with pytest.raises(StateInUseError):
            Store.open(path)


def test_the_guard_holds_under_other_names_of_the_file(path: Path) -> None:
    path.with_name("link").symlink_to(path)
    os.link(path, path.with_name("twin"))
    with held_by_another_process(path):
        for name in ("link", "twin"):
            with pytest.raises(StateInUseError):
                Store.open(path.with_name(name))


def test_a_second_opening_in_the_same_process_is_refused(path: Path) -> None:
    found = []

    def second() -> None:
        try:
            Store.open(path)
        except StateInUseError as error:
            found.append(error)

    with Store.open(path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        assert len(found) == 1
        with pytest.raises(StateInUseError):
            Store.create(path, {})
    Store.open(path).close()


def test_a_refused_opening_leaves_the_owner_unharmed(path: Path) -> None:
    with Store.open(path) as store:
        for _ in range(4):
            with pytest.raises(StateInUseError):
                Store.open(path)
            store.append(np.zeros((1, 1), np.uint8))
    with Store.open(path) as store:
        assert store.load().t == 5


def test_threads_take_turns(path: Path) -> None:
    with Store.open(path) as store:
        threads = [threading.Thread(target=store.published, args=(t, "aa")) for t in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert list(store.releases()) == list(range(20))


@FORKS
@pytest.mark.parametrize("number", [None, 7])
def test_a_forked_child_can_neither_use_nor_harm_the_state(
    path: Path, number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child tries everything and ends in the ordinary way; its parent goes on, and keeps all it wrote.

    Namespaces can give the child the ``number`` of its parent.
    """
    if number is not None:
        monkeypatch.setattr(os, "getpid", lambda: number)
    with Store.open(path) as store:
        store.append(np.zeros((1, 1), np.uint8))
        child = os.fork()
        if child == 0:  # pragma: no cover - in the child
            refused = 0
            for call in (store.load, store.releases, lambda: store.append(np.ones((1, 1), np.uint8))):
                try:
                    call()
                except StoreError as error:
                    refused += "forked" in str(error)
            store.close()
            del store
            os._exit(0 if refused == 3 else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        store.append(np.zeros((1, 1), np.uint8))
        with pytest.raises(StateInUseError):
            Store.open(path)
    with Store.open(path) as store:
        assert store.load().t == 3


def test_a_child_that_outlives_its_parent_does_not_keep_the_state(tmp_path: Path) -> None:
    """The parent is killed while a forked child of it lives on: the state is free."""
    code = """if True:
        import os, sys, time
        from headwater.run.store import Store
        store = Store.create(sys.argv[1], {})
        if os.fork() == 0:
            print(os.getpid(), flush=True)
        time.sleep(60)
        os._exit(0)
    """
    command = [sys.executable, "-c", code, str(tmp_path / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
        process.wait()
        try:
            Store.open(tmp_path / "s").close()
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_child_that_ends_in_the_ordinary_way_leaves_the_files_of_its_parent_alone(tmp_path: Path) -> None:
    """If the child closed the database, SQLite would delete the journal that the parent's next commit relies on."""
    code = """if True:
        import os, sys
        import numpy as np
        from headwater.run.store import Store
        with Store.create(sys.argv[1], {}) as store:
            store.append(np.zeros((1, 1), np.uint8))
            before = sorted(os.listdir(os.path.dirname(sys.argv[1])))
            if os.fork() == 0:
                sys.exit(0)
            os.wait()
            assert sorted(os.listdir(os.path.dirname(sys.argv[1]))) == before
            assert "s-journal" in before
            store.append(np.zeros((1, 1), np.uint8))
            assert store.load().t == 2
    """
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "s")], check=True)


@pytest.mark.parametrize("name", ["s.lock", "s-journal"])
def test_a_planted_symbolic_link_is_refused_and_its_target_stays_as_it_is(path: Path, name: str) -> None:
    target = path.with_name("precious")
    target.write_text("precious")
    path.with_name(name).unlink(missing_ok=True)
    path.with_name(name).symlink_to(target)
    with pytest.raises(StoreError, match=rf"{name} is a .*link.*remove it"):
        Store.open(path)
    assert target.read_text() == "precious"
    if name == "s.lock":
        with pytest.raises(StoreError, match="link"):
            Store.create(path.with_name("s"), {})
    path.with_name(name).unlink()
    Store.open(path).close()


def test_a_planted_hard_link_is_refused_and_its_target_stays_as_it_is(path: Path) -> None:
    target = path.with_name("precious")
    target.write_text("precious")
    path.with_name("s.lock").unlink()
    os.link(target, path.with_name("s.lock"))
    with pytest.raises(StoreError, match="not the lock that Headwater made"):
        Store.open(path)
    assert target.read_text() == "precious"


@FORKS
def test_a_fork_in_the_middle_of_a_commit_of_another_thread_waits_for_it(path: Path) -> None:
    """The child closes everything in the ordinary way while its parent was writing: the parent's commit holds."""
    with Store.open(path) as store:
        inside, forked = threading.Event(), list[int]()

        def write() -> None:
            with store.current(), store.transaction():
                store.connection.execute("INSERT INTO release VALUES (7, 'aa')")
                inside.set()
                time.sleep(0.3)
                forked.append(len(forked))

        thread = threading.Thread(target=write)
        thread.start()
        assert inside.wait(10)
        child = os.fork()
        if child == 0:  # pragma: no cover - in the child
            store.connection.close()
            os._exit(0 if forked else 1)
        _, status = os.waitpid(child, 0)
        thread.join()
        assert os.waitstatus_to_exitcode(status) == 0  # the fork came after the commit
        assert store.releases() == {7: "aa"}
    with Store.open(path) as store:
        assert store.releases() == {7: "aa"}
