"""What earlier runs have spent on which input: a ledger of this user, so that nobody spends twice without knowing.

An input is known by keyed digests of its first records, so neither the ledger nor a part of it says what they are. The
key lies next to it; nobody else may read either.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.public.budget import Guarantee
from headwater.public.files import write_whole
from headwater.run.run import Run
from headwater.secret.read.batch import Batch as Lines

LEVELS = (1, 10, 100, 1000)
"""Numbers of first records that a digest is taken of. Inputs are one if their digests of most records agree."""

_KEY = 32  # bytes


@dataclass(frozen=True)
class Spent:
    run: str
    at: str
    epsilon: float
    delta: float
    out: str
    digests: dict[str, str]

    def is_of(self, digests: dict[str, str]) -> bool:
        both = max((level for level in digests if level in self.digests), key=int, default="")
        return bool(both) and self.digests[both] == digests[both]


def cost(of: Iterable[Spent | Guarantee]) -> str:
    every = list(of)
    return Guarantee(sum(one.epsilon for one in every), sum(one.delta for one in every)).loss


def folder() -> Path:
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".local" / "state") / "headwater"


def by_input() -> list[list[Spent]]:
    """All that was spent, the runs on one input together."""
    found = list[list[Spent]]()
    with _ledger() as handle:
        known = _read(handle)
    for one in known:
        same = next((runs for runs in found if one.is_of(runs[-1].digests)), None)
        found.append([one]) if same is None else same.append(one)
    return found


@contextmanager
def noted(
    run: Run, confirm: Callable[[list[Spent]], None], warn: Callable[[str], None]
) -> Iterator[Callable[[Lines], None] | None]:
    """For `feed`: what a new run calls with its first records, before they count. ``confirm`` may refuse to go on."""
    begun = list[bool]()

    def begin(first: Lines) -> None:
        begun.append(True)
        try:
            earlier = _begin(run, first)
        except (OSError, RuntimeError) as error:
            warn(f"what this run spends cannot be written down ({error})")
            return
        if earlier:
            confirm(earlier)

    try:
        yield None if run.t else begin
    finally:
        with suppress(OSError, RuntimeError):  # a StoreError too
            if begun and not run.t:  # it has spent nothing
                with _ledger() as handle:
                    _append(handle, {"run": run.run_id, "nothing": True})


def _begin(run: Run, first: Lines) -> list[Spent]:
    """Write down that a run begins on an input, and return what others have spent on it."""
    with _ledger() as handle:
        digests = _digests(first)
        found = [one for one in _read(handle) if one.run != run.run_id and one.is_of(digests)]
        at, promise = datetime.now(UTC).isoformat(timespec="seconds"), run.guarantee
        new = Spent(run.run_id, at, promise.epsilon, promise.delta, run.sink.location, digests)
        _append(handle, new.__dict__)
    return found


def _digests(first: Lines) -> dict[str, str]:
    path = folder() / "spent.key"
    key = path.read_bytes() if path.exists() else b""
    if len(key) != _KEY:  # there is none, or not all of it
        key = secrets.token_bytes(_KEY)
        write_whole(path, [key], mode=0o600)
    digest, found = hashlib.blake2b(key=key, digest_size=16), dict[str, str]()
    for number in range(min(first.records, LEVELS[-1])):
        text = first.text(number).encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(8, "big") + text)
        if number + 1 in LEVELS:
            found[str(number + 1)] = digest.hexdigest()
    return found


@contextmanager
def _ledger() -> Iterator[int]:
    """The file, which one process at a time reads and writes."""
    place = folder()
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(place / "spent.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _read(handle: int) -> list[Spent]:
    found = dict[str, Spent]()
    for line in os.pread(handle, os.fstat(handle).st_size, 0).splitlines():
        try:
            said: dict[str, Any] = json.loads(line)
            if said.get("nothing"):
                found.pop(said["run"], None)
            else:
                one = Spent(**said)
                digests = {str(int(level)): str(digest) for level, digest in one.digests.items()}
                loss = float(one.epsilon), float(one.delta)
                found[said["run"]] = Spent(said["run"], str(one.at), *loss, str(one.out), digests)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue  # half a line, which a kill has left, or damage
    return list(found.values())


def _append(handle: int, said: dict[str, Any]) -> None:
    size = os.fstat(handle).st_size
    begun = b"\n" if size and os.pread(handle, 1, size - 1) != b"\n" else b""
    os.write(handle, begun + json.dumps(said).encode() + b"\n")
    os.fsync(handle)
