"""What was measured is kept before it is shown, and is never measured again; others read it by itself."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater.public import protocol as registry
from headwater.public.files import FileRefusedError, pack, unpack
from headwater.public.folder import folders, read_card
from headwater.public.protocol import Span
from headwater.run import FolderSink, Moment, Run, measured_beside
from headwater.run.lock import StateDamagedError, StoreError
from headwater.run.measured import BANNER, Frame, frames
from headwater.run.state import State
from headwater.secret.batch import Batch
from tests.support.kept_runs import SCHEMA, VALUES, kill, open_run, tables, take
from tests.support.runs import same

WIDE = hw.Schema({f"c{i}": hw.Integer(0, 9) for i in range(5)})
KERNELS = {"OPENBLAS_CORETYPE": "Haswell"}, {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3"}


def wide(first: int, end: int) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    x, noise = rng.integers(0, 4, 8000), rng.integers(0, 3, (5, 8000))
    return {f"c{i}": np.clip(x * (i + 1) // 2 + noise[i], 0, 9)[first:end] for i in range(5)}


def table(mechanism: str, first: int, end: int) -> dict[str, Any]:
    return wide(first, end) if mechanism == "marginals" else {"x": VALUES[first:end]}


def schema(mechanism: str) -> hw.Schema:
    return WIDE if mechanism == "marginals" else SCHEMA


def entries(path: Path) -> list[Span]:
    """What a file holds, measured once each."""
    spans = [span for frame in frames(path) for span in frame.kept]
    assert len(spans) == len(set(spans))
    return spans


# ---- killed, and continued on another processor

CHILD = """if True:
    import os, signal, sys, warnings
    warnings.simplefilter("ignore")
    from pathlib import Path
    from headwater.run import FolderSink, Run
    from headwater.run.measured import MeasuredFile
    from headwater.secret.cascade import CascadeMechanism
    from headwater.secret.noise import Noise
    from tests.run.test_measured import schema, wide
    from tests.support.kept_runs import open_run
    (name, mechanism, *numbers, fault), (asked, draws) = sys.argv[1:], ([], [])
    folder, (dies, end) = Path(name), map(int, numbers)
    blocks, measure, key = Noise.blocks, CascadeMechanism._measure, Noise(1).key

    def counted(self, *address):
        if self.key == key:  # the ledger of the paper's mechanism looks at the laws of another one
            draws.append(address)
        return blocks(self, *address)

    def measured(self, number, span, trees):
        asked.append(span)
        return measure(self, number, span, trees)

    class Dies(FolderSink):
        def publish(self, release, run_id):
            published = super().publish(release, run_id)
            if release.t == dies:  # it can be seen, and the state does not know yet
                os.kill(os.getpid(), signal.SIGKILL)
            return published

    Noise.blocks, CascadeMechanism._measure = counted, measured
    if fault == "keeps nothing":
        MeasuredFile.keep = lambda self, *more: None
    table = schema("marginals") if mechanism == "marginals" else schema("cascade")
    run = open_run(folder, "1000", sink=Dies(folder / "out", "csv"), schema=table, epsilon=4.0, mechanism=mechanism)
    run.publish_if_due()
    print([[list(span) for span in asked], len(draws)])
    for first in range(run.t, end, 1000):
        rows = wide(first, first + 1000)
        run.take(rows if mechanism == "marginals" else {"x": rows["c0"] / 9})
        run.publish_if_due()
    run.close()
"""


def child(kernel: dict[str, str], folder: Path, mechanism: str, dies: int, end: int, fault: str = "") -> Any:  # noqa: ANN401
    """What a process has asked for until it had caught up; None if it was killed."""
    words = [sys.executable, "-c", CHILD, str(folder), mechanism, str(dies), str(end), fault]
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    how = {**os.environ, **kernel, "PYTHONPATH": path, "SOURCE_DATE_EPOCH": "1700000000", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=how, cwd=root, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return json.loads(done.stdout) if done.returncode == 0 else None


def killed_and_continued(folder: Path, mechanism: str, fault: str = "") -> None:
    """A run is killed when a release can be seen, and goes on under other kernels from its journal."""
    path = folder / "run.state.measured"
    assert child(KERNELS[0], folder, mechanism, 5000, 7000, fault) is None
    shown, before = tables(folder), path.read_bytes() if path.exists() else b""
    kept = {tuple(span) for span in (entries(path) if before else [])}
    asked, draws = child(KERNELS[1], folder, mechanism, 0, 7000)
    after = tables(folder)
    assert {name: after[name] for name in shown} == shown
    assert len(after) == 7
    assert path.read_bytes().startswith(before)
    entries(path)
    assert not kept & {tuple(span) for span in asked}
    assert mechanism == "cascade" or draws == 0  # cascade forgets what no release needs any more, and shows none of it
    assert before


@pytest.mark.parametrize("mechanism", ["marginals", "cascade", "paper"])
def test_a_killed_run_goes_on_under_another_blas_kernel_and_asks_nothing_again(tmp_path: Path, mechanism: str) -> None:
    killed_and_continued(tmp_path, mechanism)


@pytest.mark.parametrize("mechanism", ["marginals", "cascade"])
def test_planted_fault_of_what_is_not_kept(tmp_path: Path, mechanism: str) -> None:
    with pytest.raises(AssertionError):
        killed_and_continued(tmp_path, mechanism, "keeps nothing")


# ---- read by others


@pytest.mark.parametrize("mechanism", ["marginals", "cascade", "paper"])
def test_releases_and_windows_are_made_of_the_file_alone(tmp_path: Path, mechanism: str) -> None:
    """Copied to where there is neither key nor records; equal to what the run itself gives at that moment."""
    with open_run(tmp_path, schema=schema(mechanism), mechanism=mechanism, delta=0.0) as run:
        for first in range(0, 1200, 300):
            run.take(table(mechanism, first, first + 300))
            asked: list[dict[str, int]] = [{}, {"last": 200}, {"since": 100}] if run.synth.has_windows else [{}]
            expected = [run.release(**window) for window in asked]
            alone = tmp_path / f"alone{first}" / "what.measured"
            alone.parent.mkdir()
            shutil.copy(measured_beside(tmp_path / "run.state"), alone)
            moment = Moment.read(alone)
            assert (moment.t, moment.run_id, moment.guarantee) == (run.t, run.run_id, run.guarantee)
            assert all(same(moment.release(**how), one) for how, one in zip(asked, expected, strict=True))
        secret = run.synth.state.noise.key
        assert secret.hex().encode() not in alone.read_bytes()
        assert secret not in alone.read_bytes()
        if run.synth.has_windows:
            for how in ({"since": 5000}, {"last": 0}, {"last": 5, "since": 5}):
                with pytest.raises(ValueError, match=r"since|last") as ours:
                    run.release(**how)
                with pytest.raises(ValueError, match=r"since|last") as theirs:
                    moment.release(**how)
                assert str(ours.value) == str(theirs.value)


def call(folder: Path, *more: object) -> str:
    words = [sys.executable, "-m", "headwater.cli", *map(str, more)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_info_release_and_windows_while_the_owner_is_stopped(tmp_path: Path) -> None:
    """`SIGSTOP`: nobody can answer, and nobody is asked. Then the run goes on as if nobody had looked."""
    (tmp_path / "in.csv").write_text("x\n" + "".join(f"{value:.6f}\n" for value in VALUES[:1000]))
    SCHEMA.save(tmp_path / "s.toml")
    words = [sys.executable, "-m", "headwater.cli", "run", "in.csv", "--schema", "s.toml", "--epsilon", "1", "--follow"]
    words += ["--every", "500", "--out", "out", "--window", "300", "--seed", "3", "--format", "csv"]
    how = {**os.environ, "PYTHONWARNINGS": "ignore"}
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, cwd=tmp_path, env=how, stdout=pipe, stderr=pipe)
    wait_for(tmp_path / "out" / "release-000000001000")
    try:
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        said = call(tmp_path, "info", "out.state", "--plan")
        assert "in use" in said
        assert "the last one that was kept, of 1,000 records" in said
        assert "cascade" in said
        call(tmp_path, "release", "out.state", "--out", "looks", "--format", "csv")
        text = call(tmp_path, "release", "out.state", "--out", "looks", "--format", "csv", "--last", 300)
        assert "the last moment that it has kept, of 1,000 records" in text
        assert time.monotonic() - began < 60
        looks = {name: read_card(place)["sha256"] for name, place in by_name(tmp_path / "looks").items()}
        ours = by_name(tmp_path / "out") | by_name(tmp_path / "out" / "last-300")
        assert len(looks) == 2
        assert all(read_card(ours[name])["sha256"] == digest for name, digest in looks.items())
        (tmp_path / "elsewhere").mkdir()
        shutil.copy(tmp_path / "out.state.measured", tmp_path / "elsewhere")
        assert "1,000" in call(tmp_path / "elsewhere", "info", "out.state.measured")
        process.send_signal(signal.SIGCONT)
        with (tmp_path / "in.csv").open("a") as file:
            file.write("".join(f"{value:.6f}\n" for value in VALUES[1000:]) + "0.5\n" * 250)
        wait_for(tmp_path / "out" / "release-000000001500")
    finally:
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors.decode()
    assert "in use" not in call(tmp_path, "info", "out.state")


def by_name(out: Path) -> dict[str, Path]:
    return {place.name: place for place in folders(out)}


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 120
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert path.exists()


# ---- kept before it is shown, and once


def test_whatever_is_shown_is_on_the_disk_before_a_model_is_made_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And noted in the state, so that a file which is lost is missed: releases, windows, other sinks, no sink."""
    made, model, path = list[int](), registry.model, measured_beside(tmp_path / "run.state")

    def looks(mechanism: str) -> Any:  # noqa: ANN401 - as there
        found = frames(path)
        assert run._state is not None
        assert run._state.noted("measured") == [found[-1].end, found[-1].checksum]
        assert path.stat().st_size == found[-1].end
        assert run.synth.state.mechanism.kept().keys() <= set(entries(path))
        made.append(run.t)
        return model(mechanism)

    monkeypatch.setattr(registry, "model", looks)
    with open_run(tmp_path, "100", windows={50: FolderSink(tmp_path / "windows")}) as run:
        take(run, 0, 130)
        run.publish()
        take(run, 130, 170)
        run.publish_to(FolderSink(tmp_path / "other"), last=20)
        take(run, 170, 190)
        run.release(since=120)
    assert made == [130, 130, 130, 130, 170, 190]


@pytest.mark.parametrize("step", ["note", "published"])
def test_a_kill_between_the_file_and_what_the_state_notes_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """What can be seen then stays as it is, also if the next processor would make another model of the same numbers."""
    with open_run(tmp_path / "calm", "100") as run:
        take(run, 0, 300)
    run, model = open_run(tmp_path / "killed", "100"), registry.model
    run.take({"x": VALUES[:250]})

    def dies(*_: object, **__: object) -> None:
        kill(run)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(State, step, dies)
        with pytest.raises(KeyboardInterrupt):
            run.publish_if_due()

    def rounds_otherwise(mechanism: str) -> Any:  # noqa: ANN401 - as there
        return SimpleNamespace(fit=lambda measured, table, seed: model(mechanism).fit(measured, table, seed + 1))

    with open_run(tmp_path / "killed", "100") as run:
        with monkeypatch.context() as patch:
            if step == "published":
                patch.setattr(registry, "model", rounds_otherwise)
                run._count()
                run._show(run.sink, run._begin(run.sink))
        take(run, 250, 300)
    entries(measured_beside(tmp_path / "killed" / "run.state"))
    assert tables(tmp_path / "killed") == tables(tmp_path / "calm")


@pytest.mark.parametrize("mechanism", ["marginals", "cascade"])
@pytest.mark.parametrize("walk", range(4))
def test_other_schedules_resumes_snapshots_and_counted_records_measure_nothing_twice(
    tmp_path: Path, mechanism: str, walk: int
) -> None:
    """A random walk of all that may happen to a run; every release is what one undisturbed synthesizer gives."""
    chance, state = random.Random(walk), tmp_path / "run.state"  # noqa: S311 - a test
    how: dict[str, Any] = {"schema": schema(mechanism), "mechanism": mechanism, "epsilon": 4.0}
    worker = hw.Synthesizer(schema(mechanism), epsilon=4.0, mechanism=mechanism)
    run, seen = open_run(tmp_path, "100", **how), dict[int, list[hw.Release]]()
    for _ in range(30):
        act, t = chance.choice(["take", "take", "count", "measure", "release", "kill", "close", "resume"]), run.t
        end = min(t + chance.randrange(1, 160), 1250)
        if act == "take":
            run.take(table(mechanism, t, end))
        elif act == "count":
            end = min(end, run.next_due or end)
            run.take(worker.encode(table(mechanism, t, end), t, chance.choice([None, end])))
        elif act == "measure":
            run.measure()
        elif act == "release" and t:
            run.release(last=70)
            seen.setdefault(run.synth.t, []).append(run.release())
        elif act in ("kill", "close", "resume"):
            kill(run) if chance.random() < 0.5 else run.close()
            if act == "resume" and t:
                with Run.resume(state, sink := FolderSink(tmp_path / "asked")) as asked:
                    seen.setdefault(t, []).append(asked.publish_to(sink).release)
            run = open_run(tmp_path, chance.choice(["70", "100", "130", "1h"]), **how)
        if chance.random() < 0.5:
            for published in run.publish_if_due():
                seen.setdefault(published.t, []).append(published.release)
    run.close()
    entries(measured_beside(state))
    synth = hw.Synthesizer(schema(mechanism), epsilon=4.0, mechanism=mechanism, seed=1)
    for t in sorted(seen):
        synth.update(table(mechanism, synth.t, t))
        assert all(same(release, synth.release()) for release in seen[t])
    assert len(seen) > 3


def test_records_that_replace_those_of_a_later_measurement_are_not_measured(tmp_path: Path) -> None:
    """The state was put back, what it had measured was not, and --allow-copy was given: nothing is measured twice."""
    take(run := open_run(tmp_path), 0, 400)
    run.close()
    old = [(path, path.read_bytes()) for path in tmp_path.glob("run.state*") if path.suffix != ".measured"]
    with open_run(tmp_path) as run:
        take(run, 400, 1000)
        expected = run.release()
    for path, data in old:
        path.write_bytes(data)
    with open_run(tmp_path, allow_copy=True) as run:
        run.take({"x": np.full(600, 0.123)})
        assert np.array_equal(run.release().points(), expected.points())
        take(run, 1000, 1250)
        run.release()
    entries(measured_beside(tmp_path / "run.state"))


# ---- a file that is not what the state says


def other_numbers(frame: bytes) -> bytes:
    """As long, and with a checksum that fits."""
    header, arrays = unpack(frame, BANNER, "")
    name = max(arrays, key=lambda name: arrays[name].size)
    packed = pack(BANNER, header, arrays | {name: arrays[name] + arrays[name].dtype.type(1)})
    assert len(packed) == len(frame)
    return packed


def spoiled(frame: list[Frame], data: bytes, how: str) -> bytes:
    return {
        "shorter": data[:-1],
        "a frame less": data[: frame[-2].end],
        "altered": data[:-40] + bytes(8) + data[-32:],
        "other numbers": data[: frame[-2].end + 8] + other_numbers(data[frame[-2].end + 8 :]),
        "altered in front": data[:300] + bytes(8) + data[308:],
        "no measurements": b"something else, and long enough to be looked at" * 9,
        "empty": b"",
    }[how]


HOW = "missing|another run|a link|shorter|a frame less|altered|altered in front|other numbers|no measurements|empty"


@pytest.mark.parametrize("how", HOW.split("|"))
def test_a_file_that_is_not_what_the_state_has_noted_is_refused_and_the_run_goes_on_when_it_is_back(
    tmp_path: Path, how: str
) -> None:
    path = measured_beside(tmp_path / "run.state")
    with open_run(tmp_path, "100") as run:
        take(run, 0, 250)
    good, there = path.read_bytes(), frames(path)
    path.rename(tmp_path / "moved")
    if how == "another run":
        with open_run(tmp_path / "other", seed=2) as run:
            take(run, 0, 250)
            run.release()
        shutil.copy(measured_beside(tmp_path / "other" / "run.state"), path)
    elif how == "a link":
        path.symlink_to(tmp_path / "moved")
    elif how != "missing":
        path.write_bytes(spoiled(there, good, how))
    attempts: list[Callable[[], Run]] = [lambda: open_run(tmp_path)]
    attempts.append(lambda: Run.resume(tmp_path / "run.state", FolderSink(tmp_path / "out")))
    for attempt in attempts:
        with pytest.raises(StoreError, match=r"missing|damaged|another run|link") as caught:
            attempt()
        assert caught.value.path == path
        assert isinstance(caught.value, StateDamagedError) or how not in ("altered in front", "no measurements")
    if how in ("missing", "empty", "no measurements", "altered in front"):
        with pytest.raises(FileRefusedError):
            Moment.read(path)
    path.unlink(missing_ok=True)
    (tmp_path / "moved").rename(path)
    with open_run(tmp_path, "100") as run:
        take(run, 250, 300)
    assert path.read_bytes().startswith(good)
    assert len(tables(tmp_path)) == 3


@pytest.mark.parametrize(
    "tail", [b"\x07", (400).to_bytes(8, "little") + b"half", (12).to_bytes(8, "little") + bytes(12)]
)
def test_half_a_frame_that_a_kill_left_is_no_frame_and_is_written_over(tmp_path: Path, tail: bytes) -> None:
    """Also one whose length is on the disk and whose content is not."""
    path = measured_beside(tmp_path / "run.state")
    with open_run(tmp_path, "100") as run:
        take(run, 0, 250)
    with path.open("ab") as file:
        file.write(tail)
    path.with_name(f".{path.name}.half").write_bytes(b"of a first frame")
    assert Moment.read(path).t == 200
    with open_run(tmp_path, "100") as run:
        take(run, 250, 300)
    assert Moment.read(path).t == 300
    assert path.stat().st_size == frames(path)[-1].end
    assert not list(tmp_path.glob(".*"))


def test_a_file_cut_under_the_run_is_missed_before_anything_is_shown(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        take(run, 0, 100)
        run.release()
        os.truncate(measured_beside(tmp_path / "run.state"), 50)
        take(run, 100, 200)
        with pytest.raises(StoreError, match="missing"):
            run.release()


def test_a_new_run_never_writes_over_what_another_has_measured(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        take(run, 0, 250)
        expected = run.release()
    (tmp_path / "run.state").rename(tmp_path / "away")
    with pytest.raises(StoreError, match="move it to where that state is, or remove it"):
        open_run(tmp_path, seed=2)
    (tmp_path / "away").rename(tmp_path / "run.state")
    with open_run(tmp_path) as run:
        assert same(run.release(), expected)


@pytest.mark.parametrize("mechanism", ["cascade", "paper"])
def test_a_moment_is_that_of_most_records(tmp_path: Path, mechanism: str) -> None:
    """A release that was due is kept after a later moment."""
    path = measured_beside(tmp_path / "run.state")
    run = open_run(tmp_path, "400", mechanism=mechanism)
    run.take({"x": VALUES[:950]})
    with pytest.raises(FileRefusedError, match="nothing has been measured yet"):
        Moment.read(path)
    kill(run)
    with Run.resume(tmp_path / "run.state", FolderSink(tmp_path / "asked")) as asked:
        expected = asked.release()
    with open_run(tmp_path, "400", mechanism=mechanism) as run:
        run.publish_if_due()
        assert same(Moment.read(path).release(), expected)


def test_a_moment_is_written_once_and_only_where_it_is_no_whole_release(tmp_path: Path) -> None:
    path = measured_beside(tmp_path / "run.state")
    with open_run(tmp_path) as run:
        run.take(Batch(run.encode({"x": VALUES[:1000]}).rows))
        run.measure()
        size = path.stat().st_size
        run.measure()
        assert (path.stat().st_size, Moment.read(path).t) == (size, 1000)
    with open_run(tmp_path / "paper", mechanism="paper") as run:
        take(run, 0, 100)
        run.measure()
        assert not measured_beside(tmp_path / "paper" / "run.state").exists()
