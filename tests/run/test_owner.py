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

from headwater.run.lock import StateInUseError, StoreError
from headwater.run.state import State
from headwater.secret.batch import Batch

ROW = Batch(np.zeros((1, 1), np.uint8))
FORKS = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forking beside threads is the point

HOLD = """if True:
    import sys, time
    from headwater.run.state import State
    state = State.open(sys.argv[1])
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
    with State.create(tmp_path / "s", {}) as state:
        state.append(ROW, {})
    return tmp_path / "s"


def test_a_second_process_is_refused_at_once_and_a_kill_frees_the_state(path: Path) -> None:
    with held_by_another_process(path) as process:
        begin = time.monotonic()
        with pytest.raises(StateInUseError, match=r"another process or thread.*let it end first"):
            State.open(path)
        assert time.monotonic() - begin < 1
        process.send_signal(signal.SIGKILL)
        process.wait()
        with State.open(path) as state:
            assert state.t == 1


def test_the_guard_holds_under_other_names_and_without_its_lock_file(path: Path) -> None:
    path.with_name("link").symlink_to(path)
    with held_by_another_process(path):
        os.link(path, path.with_name("twin"))
        path.with_name("s.lock").unlink()
        for name in ("s", "link", "twin"):
            with pytest.raises(StateInUseError):
                State.open(path.with_name(name))


def test_a_second_opening_in_the_same_process_is_refused(path: Path) -> None:
    found = list[BaseException]()

    def second() -> None:
        with pytest.raises(StateInUseError) as caught:
            State.open(path)
        found.append(caught.value)

    with State.open(path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        assert len(found) == 1
        with pytest.raises(StateInUseError):
            State.create(path, {})
    with State.open(path) as state:  # and its owner is unharmed
        for _ in range(4):
            with pytest.raises(StateInUseError):
                State.open(path)
            state.append(ROW, {})
    with State.open(path) as state:
        assert len(state.load()[2]) == state.t == 5


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
    with State.open(path) as state:
        state.append(ROW, {})
        child = os.fork()
        if child == 0:  # pragma: no cover - in the child
            refused = 0
            for call in (state.load, state.releases, lambda: state.append(ROW, {})):
                try:
                    call()
                except StoreError as error:
                    refused += "forked" in str(error)
            state.close()
            del state
            os._exit(0 if refused == 3 else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        state.append(ROW, {})
        with pytest.raises(StateInUseError):
            State.open(path)
    with State.open(path) as state:
        assert state.t == 3


def test_a_child_that_outlives_its_parent_does_not_keep_the_state(tmp_path: Path) -> None:
    """The parent is killed while a forked child of it lives on: the state is free."""
    code = """if True:
        import os, sys, time
        from headwater.run.state import State
        state = State.create(sys.argv[1], {})
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
            State.open(tmp_path / "s").close()
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(("name", "kind"), [("s.lock", "symbolic"), ("s.lock", "hard"), ("s", "hard")])
def test_a_planted_link_is_refused_and_its_target_stays_as_it_is(path: Path, name: str, kind: str) -> None:
    """A state with a second name could be continued under both once a snapshot has taken the place of one."""
    target, link = path.with_name("precious"), path.with_name(name)
    target.write_text("precious")
    if name == "s":
        os.link(path, path.with_name("twin"))
    else:
        link.unlink()
        os.link(target, link) if kind == "hard" else link.symlink_to(target)
    with pytest.raises(StoreError, match=rf"{name} is a .*link.*remove it"):
        State.open(path)
    assert target.read_text() == "precious"
    (path.with_name("twin") if name == "s" else link).unlink()
    State.open(path).close()
