"""Whoever only opens what was published loads nothing that reads records or draws noise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import headwater as hw
from headwater.public import protocol as registry
from headwater.public.folder import publish

SCHEMA = hw.Schema(size=hw.Number(0, 10), paid=hw.Category("card", "cash", "other", other="other"))
ROWS = {"size": np.random.default_rng(0).random(400) * 10, "paid": ["card", "cash"] * 200}
OPENED = """
import json, sys
import headwater as hw
release = hw.Release.load(sys.argv[1])
release.sample(20, kind="records")
release.sample(20, where={"size": (2, 6), "paid": "card"}, kind="records")
release.sample(kind="pandas"), release.expected_error(), release.error_bound, str(release)
print(json.dumps(sorted(name for name in sys.modules if name.startswith("headwater."))))
"""


@pytest.mark.parametrize("mechanism", registry.names())
def test_a_process_that_opens_a_release_and_samples_it_loads_nothing_secret(mechanism: str, tmp_path: Path) -> None:
    if mechanism == "pmm":
        release = hw.pmm(ROWS, SCHEMA, epsilon=8.0, seed=1)
    else:
        synth = hw.Synthesizer(SCHEMA, epsilon=8.0, mechanism=mechanism, seed=1)
        synth.update(ROWS)
        release = synth.release()
    release.save(tmp_path / "release.hw")
    for opened in (tmp_path / "release.hw", publish(release, tmp_path)):
        done = subprocess.run(
            [sys.executable, "-c", OPENED, str(opened)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        loaded = json.loads(done.stdout)
        assert "headwater.public.release" in loaded
        assert [name for name in loaded if not name.startswith("headwater.public")] == []


def test_every_name_of_the_package_is_there_and_said_to_the_type_checker_as_well() -> None:
    source = Path(hw.__file__).read_text(encoding="utf-8")
    for name in set(hw.__all__) - {"__version__"}:
        found = getattr(hw, name)
        assert f"import {name} as {name}\n" in source
        assert getattr(found, "__name__", name) == name
    assert source.count(" as ") == len(hw.__all__) - 1
    assert dir(hw) == sorted(hw.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = hw.nonsense  # type: ignore[attr-defined]
