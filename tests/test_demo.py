"""The demo runs, and its page holds what it promises."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
RECORDS = 3_000


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    """The script, imported as Python runs it: its own folder comes first on the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        return importlib.import_module("moving_crowd")


@pytest.fixture(scope="module")
def ran(demo: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, list[str]]:
    """The page of one short run, what was printed, and the W1 values that were computed."""
    out = tmp_path_factory.mktemp("demo") / "new" / "page.html"
    computed: list[str] = []
    printed: list[str] = []

    def show(day: object, path: Path, console: object) -> None:
        computed.extend(f"{moment.w1:.4f}" for moment in day.moments)  # type: ignore[attr-defined]  # a script's type
        with console.capture() as capture:  # type: ignore[attr-defined]
            shown(day, path, console)
        printed.append(capture.get())

    shown = demo.show
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "show", show)
        patch.setattr(demo, "SIDE", 16)  # coarse grids: this is about the page, not about the distances
        patch.setattr(demo, "FINE_SIDE", 32)
        demo.main(["--records", str(RECORDS), "--out", str(out)])
    return out.read_text(encoding="utf-8"), printed[0], computed


def test_the_page_asks_for_nothing_from_outside(ran: tuple[str, str, list[str]]) -> None:
    page, _, _ = ran
    assert "http:" not in page
    assert "https:" not in page
    assert "url(" not in page
    assert "@import" not in page
    assert not re.search(r"<(script|link|iframe)\b", page)
    assert all(source.startswith("data:image/png;base64,") for source in re.findall(r'(?:src|href)="([^"]*)', page))


def test_the_page_has_five_pairs_a_colour_scale_and_a_curve(ran: tuple[str, str, list[str]]) -> None:
    page, _, _ = ran
    assert page.count("<img ") == 2 * 5 + 1
    assert page.count("<svg ") == 1
    assert page.count("<polyline ") == 3


def test_page_and_table_show_every_distance_that_was_computed(
    demo: ModuleType, ran: tuple[str, str, list[str]]
) -> None:
    page, printed, computed = ran
    assert len(computed) == demo.RELEASES
    assert re.findall(r"<td><b>([0-9.]+)</b></td>", page) == computed
    assert all(distance in printed for distance in computed)
    assert "page.html" in printed


def test_the_page_says_in_red_that_it_is_not_private(ran: tuple[str, str, list[str]]) -> None:
    page, _, _ = ran
    assert re.search(r'class="banner"[^>]*><strong>This page is NOT private\.', page)
    assert ".banner { background: var(--bad)" in page
    assert re.findall(r"--bad: #([0-9a-f]{6})", page) == ["a81420", "b51d2a"]  # light and dark, both red


def test_the_privacy_card_names_the_promise(ran: tuple[str, str, list[str]]) -> None:
    page, _, _ = ran
    for words in ("event level", "replace-one", "1 for the whole run", f"{RECORDS:,} records"):
        assert words in page


def test_the_crowd_is_the_same_every_time_and_stays_in_the_square(demo: ModuleType) -> None:
    positions = demo.crowd(20_000)
    assert positions.shape == (20_000, 2)
    assert np.array_equal(positions, demo.crowd(20_000))
    assert positions.min() >= 0
    assert positions.max() <= 1


def test_the_burst_appears_half_way(demo: ModuleType) -> None:
    near = np.abs(demo.crowd(20_000) - (0.8, 0.18)).max(axis=1) < 0.05
    assert near[:10_000].mean() < 0.01
    assert near[10_000:12_000].mean() > 0.3


@pytest.mark.parametrize(
    "arguments", [["--records", "10"], ["--epsilon", "-1"], ["--epsilon", "nan"], ["--mechanism", "none such"]]
)
def test_a_wrong_option_is_refused_before_anything_runs(
    demo: ModuleType, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        demo.main(arguments)
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0, 20.0])
def test_the_words_follow_the_measured_ratio(demo: ModuleType, ratio: float) -> None:
    words = importlib.import_module("crowd_page")._against_offline(ratio, useful=True)
    expected = {0.5: "more accurate", 1.0: "next to nothing", 2.0: "some accuracy", 20.0: "much accuracy"}
    assert expected[ratio] in words
