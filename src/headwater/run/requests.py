"""Questions to a run that is under way. Whoever owns the state answers them, between two batches.

A state has one owner, and only the owner measures: what a release shows is kept before it is seen, and no number is
measured by two processes (`proofs/survival.md`). So another process that wants to know how far a run is, or a release
of this moment, puts a request into a folder beside the state, and the owner puts the answer beside the request.

The folder belongs to the owner's user and nobody else may enter it. A request is locked as long as somebody waits for
the answer; the owner removes the others.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwater.public.files import FileRefusedError
from headwater.public.tally import Tally
from headwater.run.run import Run
from headwater.run.sink import FolderSink
from headwater.run.status import status_of
from headwater.run.store import StateInUseError, StoreError
from headwater.run.store.create import real_path
from headwater.run.store.lock import Lock

_POLL = 0.05  # seconds between two looks for the answer
_LOOK = 20  # looks for the answer between two looks for the owner
_LONGEST = 1 << 16  # bytes of a request


class OwnerGoneError(StoreError):
    """Nobody has this state open any more: use it directly."""


def request_status(state: Path, *, plan: bool = False, seconds: float = 60.0) -> tuple[dict[str, str], Tally]:
    answer = _ask(state, {"request": "status", "plan": plan}, seconds)
    return {str(name): str(value) for name, value in answer["status"].items()}, Tally.from_dict(answer["tally"])


def request_release(
    state: Path, sink: FolderSink, *, last: int | None = None, since: int | None = None, seconds: float = 600.0
) -> tuple[str, str]:
    wanted = {"request": "release", "out": str(sink.out.resolve()), "format": sink.format, "rows": sink.rows}
    place, text = _ask(state, {**wanted, "last": last, "since": since}, seconds)["release"]
    return str(place), str(text)


def answer_requests(run: Run) -> None:
    """Answer every request about a run."""
    if run.state is None:
        return
    folder = _folder(run.state)
    try:
        names = os.listdir(folder)
        private = _is_private(os.stat(folder, follow_symlinks=False), stat.S_ISDIR)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    for name in sorted(names) if private else ():
        if name.endswith(".json"):
            _answer(run, folder / name)


# ---- the side that asks


def _ask(state: Path, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    state = real_path(state)
    folder = _folder(state)
    name = secrets.token_hex(8)
    path, answer, hidden = (folder / f"{name}.{ending}" for ending in ("json", "answer", "new"))
    handle = None
    while handle is None:
        folder.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):  # somebody else who asked has just removed the folder
            handle = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.write(handle, json.dumps(dict(request)).encode())
        os.rename(hidden, path)
        return _read(_wait(state, answer, seconds))
    finally:
        for left in (path, answer, hidden):
            left.unlink(missing_ok=True)
        os.close(handle)
        with suppress(OSError):  # others may be asking
            folder.rmdir()


def _wait(state: Path, answer: Path, seconds: float) -> bytes:
    end, looks = time.monotonic() + seconds, 0
    while True:
        with suppress(FileNotFoundError):
            return answer.read_bytes()
        if looks % _LOOK == _LOOK - 1:
            with suppress(StateInUseError):
                Lock(state).release()
                with suppress(FileNotFoundError):
                    return answer.read_bytes()  # it ended after answering
                raise OwnerGoneError(state, "the run that used this state has ended", "give the command again")
        if time.monotonic() > end:
            problem = f"another process uses this state and has not answered for {seconds:g} seconds"
            raise StateInUseError(state, problem, "try again, or let it end first")
        looks += 1
        time.sleep(_POLL)


def _read(data: bytes) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(data)
    for kind, make in _ERRORS.items():
        if kind in answer:
            raise make(*answer[kind])
    return answer


_ERRORS: dict[str, Callable[..., Exception]] = {
    "StoreError": StoreError,
    "OSError": OSError,
    "FileRefusedError": FileRefusedError,
    "ValueError": ValueError,
}


# ---- the side that answers


def _answer(run: Run, path: Path) -> None:
    request = _taken(path)
    if request is None:
        return
    try:
        answer = _done(run, request)
    except StoreError as error:
        answer = {"StoreError": [str(error.path), error.problem, error.remedy]}
    except OSError as error:
        answer = {"OSError": [error.errno, error.strerror, error.filename and str(error.filename)]}
    except FileRefusedError as error:
        answer = {"FileRefusedError": [str(error)]}
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        answer = {"ValueError": [str(error)]}
    hidden = path.with_suffix(".half")
    with suppress(OSError):  # whoever asked has gone, or the disk is full: nothing of the run hangs on it
        hidden.touch(mode=0o600)
        hidden.write_text(json.dumps(answer))
        os.rename(hidden, path.with_suffix(".answer"))
        path.unlink(missing_ok=True)


def _taken(path: Path) -> dict[str, Any] | None:
    """A request that somebody waits for; any other is removed."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not _is_private(os.fstat(handle), stat.S_ISREG):
            return None
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
            return None
        request = json.loads(os.pread(handle, _LONGEST, 0))
        return request if isinstance(request, dict) else None
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        os.close(handle)


def _done(run: Run, request: Mapping[str, Any]) -> dict[str, Any]:
    if request["request"] == "status":
        return {"status": status_of(run.synth, t=run.t, plan=bool(request["plan"])), "tally": run.tally.to_dict()}
    if request["request"] != "release":
        raise ValueError("the run that uses this state does not know this request; it may be of another version")
    if run.t == 0:
        raise ValueError("no record has come yet, so there is nothing to publish")
    sink = FolderSink(Path(request["out"]), request["format"], rows=request["rows"])
    published = run.publish_to(sink, last=request["last"], since=request["since"])
    return {"release": [published.place, str(published)]}


def _folder(state: Path) -> Path:
    return state.with_name(state.name + ".requests")


def _is_private(status: os.stat_result, kind: Callable[[int], bool]) -> bool:
    return kind(status.st_mode) and status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
