"""The page in a real browser: skipped where there is none, unless HEADWATER_BROWSER=required."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater.evaluation.bars import Bars
from headwater.public.categories import Boolean, Category
from headwater.public.folder import publish
from headwater.public.moments import Datetime
from headwater.public.numbers import Integer, Number
from headwater.public.schema import Schema
from headwater.report import write_report
from headwater.synthesizer import Synthesizer
from tests.report.test_report import HOSTILE, SMALL, write_release

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=15000",
    "--dump-dom",
)
WIDE = "--window-size=1280,2000"
DARK = "--blink-settings=preferredColorScheme=0"
SCHEMA = Schema(
    when=Datetime("2024-01-01", "2024-12-31"),
    x=Number(0, 10, missing=True),
    n=Integer(0, 20),
    town=Category("here", "there", "elsewhere"),
    ok=Boolean(),
)


class Body(HTMLParser):
    """The attributes of the body, the text of the page, and which elements there are."""

    def __init__(self, dom: str) -> None:
        super().__init__()
        self.data, self.text, self.tags = dict[str, str](), "", list[str]()
        self.shown_by_id = dict[str, bool]()
        self.feed(dom)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = {name: value or "" for name, value in attrs}
        if tag == "body":
            self.data = {name.removeprefix("data-"): value for name, value in found.items() if name.startswith("data-")}
        if "id" in found:
            self.shown_by_id[found["id"]] = "hidden" not in found

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="module")
def browser() -> str:
    """The path of a browser."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None and os.environ.get("HEADWATER_BROWSER") == "required":
        pytest.fail("HEADWATER_BROWSER=required, but no Chromium was found")
    if found is None:
        pytest.skip("no Chromium was found")
    return found


def load(browser: str, page: Path, address: str = "", more: Sequence[str] = (WIDE,)) -> Body:
    """Open a page from the disk, let it run, and read what has become of it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        command = [browser, *FLAGS, *more, f"--user-data-dir={home}", page.as_uri() + address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return Body(done.stdout)


LOOK = """
const text = (id) => document.getElementById(id).textContent;
const look = () => ({
  release: text("which"), pair: document.querySelector("#choices [aria-pressed=true]").textContent,
  density: document.querySelector(".density canvas").toDataURL(),
  bars: [...document.querySelectorAll(".bars")].map((path) => path.getAttribute("d")),
  growth: document.getElementById("growth").innerHTML,
});
"""


def drive(browser: str, page: Path, script: str, address: str = "", more: Sequence[str] = (WIDE,)) -> dict[str, Any]:
    """Run a script that fills ``result`` at the end of the page, whose policy would forbid it and is taken out.

    ``look()`` returns what is visible.
    """
    text = page.read_text(encoding="utf-8").replace('http-equiv="Content-Security-Policy"', 'name="policy"')
    save = "document.body.dataset.result = JSON.stringify(result);"
    wrapped = f"<script>(async () => {{ const result = {{}}; {LOOK} {script}; {save} }})();</script></body>"
    changed = page.with_name("driven.html")
    changed.write_text(text.replace("</body>", wrapped), encoding="utf-8")
    body = load(browser, changed, address, more)
    assert "error" not in body.data
    found: dict[str, Any] = json.loads(body.data["result"])
    return found


def releases(out: Path, count: int) -> Any:  # noqa: ANN401
    """Releases of a stream that drifts to the right."""
    rng = np.random.default_rng(0)
    for i in range(1, count + 1):
        points = np.clip(rng.normal(0.1 + 0.3 * i / count, 0.08, (1_000 * i, 5)), 0, 0.49)
        points[: 100 * i, 1] = 0.5  # missing
        points[:, 4] = 0.5 * rng.integers(0, 2, len(points))
        write_release(out, SCHEMA, SCHEMA.decode(points, "arrow"), 1_000 * i)
    return SCHEMA.decode(np.clip(rng.normal(0.2, 0.1, (1_000 * count, 5)), 0, 0.49), "arrow")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A private page of six releases, and the same one beside real data."""
    place = tmp_path_factory.mktemp("pages")
    real = releases(place / "out", 6)
    return write_report(place / "out", place / "r.html"), write_report(place / "out", place / "a.html", against=real)


def test_the_page_is_drawn_without_errors_under_its_own_policy(browser: str, pages: tuple[Path, Path]) -> None:
    body = load(browser, pages[0])
    assert body.data["ready"] == "true"
    assert "error" not in body.data
    assert "Release 6 of 6: t = 6,000" in body.text
    assert "ε = 1" in body.text
    assert "6,000 synthetic records, published 6 times" in body.text
    assert "missing 10.0%" in body.text
    assert "Jan 2024" in body.text
    assert not body.shown_by_id["warning"]


def test_an_address_chooses_release_and_pair_and_the_picture_follows(browser: str, pages: tuple[Path, Path]) -> None:
    asked = ((1, 1), (6, 1), (6, 2))
    first, last, other = (
        drive(browser, pages[0], "Object.assign(result, look())", f"#release={r}&pair={p}") for r, p in asked
    )
    assert [found["release"][:14] for found in (first, last, other)] == ["Release 1 of 6", *["Release 6 of 6"] * 2]
    assert first["pair"] == last["pair"] != other["pair"]
    assert len({first["density"], last["density"], other["density"]}) == 3
    assert first["bars"] != last["bars"] == other["bars"]
    assert first["growth"] != last["growth"]


def test_an_address_of_nonsense_shows_the_last_release(browser: str, pages: tuple[Path, Path]) -> None:
    body = load(browser, pages[0], "#release=-1e9&pair=<b>")
    assert body.data == {"ready": "true"}
    assert "Release 6 of 6" in body.text


def test_slider_and_buttons_change_the_picture(browser: str, pages: tuple[Path, Path]) -> None:
    found = drive(
        browser,
        pages[0],
        """
        const slider = document.getElementById("slider");
        result.before = look();
        slider.value = 2;
        slider.dispatchEvent(new Event("input"));
        result.after = look();
        result.spoken = slider.getAttribute("aria-valuetext");
        result.address = location.hash;
        document.querySelectorAll("#choices button")[1].click();
        result.other = look();
        """,
    )
    assert found["before"]["density"] != found["after"]["density"] != found["other"]["density"]
    assert found["before"]["bars"] != found["after"]["bars"] == found["other"]["bars"]
    assert found["after"]["release"] == found["spoken"]
    assert "Release 2 of 6: t = 2,000" in found["spoken"]
    assert found["address"] == "#release=2&pair=1"


def test_pointing_at_a_chart_reads_out_the_bin(browser: str, pages: tuple[Path, Path]) -> None:
    found = drive(
        browser,
        pages[1],
        """
        const point = (chart, across, up) => {
          const box = chart.getBoundingClientRect();
          const place = { clientX: box.left + across * box.width, clientY: box.top + up * box.height };
          chart.dispatchEvent(new PointerEvent("pointermove", place));
          return chart.closest("figure").querySelector(".below").firstChild.textContent;
        };
        result.histogram = point(document.querySelector("svg.histogram"), 0.5, 0.5);
        result.density = point(document.querySelector(".density svg"), 0.5, 0.5);
        result.outside = point(document.querySelector(".density svg"), 0.001, 0.001);
        """,
    )
    assert re.fullmatch(
        r"2024-\d\d-\d\d \d\d:\d\d to 2024-\d\d-\d\d \d\d:\d\d: [\d.<]+%, real [\d.<]+%", found["histogram"]
    )
    assert re.fullmatch(r"2024.* to 2024.* × [\d.]+ to [\d.]+: [\d.<]+%", found["density"])
    assert found["outside"] == ""


def test_play_runs_from_the_first_release_to_the_last_and_stops(browser: str, pages: tuple[Path, Path]) -> None:
    found = drive(
        browser,
        pages[0],
        """
        const button = document.getElementById("play");
        result.seen = [];
        button.click();
        result.pressed = button.getAttribute("aria-pressed");
        for (let i = 0; i < 40; i++) {
          result.seen.push(text("which").split(" ")[1]);
          await new Promise((done) => setTimeout(done, 150));
        }
        result.released = button.getAttribute("aria-pressed");
        """,
    )
    assert list(dict.fromkeys(found["seen"])) == ["1", "2", "3", "4", "5", "6"]
    assert (found["pressed"], found["released"]) == ("true", "false")


def test_real_data_stand_beside_the_release_under_a_warning(browser: str, pages: tuple[Path, Path]) -> None:
    body = load(browser, pages[1])
    assert body.shown_by_id["warning"]
    assert body.shown_by_id["badge"]
    assert "Real data, not private" in body.text
    assert body.tags.count("canvas") == 3  # two pictures and the scale
    assert load(browser, pages[0]).tags.count("canvas") == 2


def test_too_few_real_records_are_said_at_the_top(browser: str, pages: tuple[Path, Path], tmp_path: Path) -> None:
    assert not load(browser, pages[1]).shown_by_id["shortage"]
    real = releases(tmp_path / "out", 2)
    body = load(browser, write_report(tmp_path / "out", tmp_path / "r.html", against=real.slice(0, 1500)))
    assert body.shown_by_id["shortage"]
    assert "the last release is about records 1 to 2,000, and only 1,500 were given" in body.text


def test_hostile_names_are_shown_and_never_run(browser: str, tmp_path: Path) -> None:
    schema = Schema({HOSTILE: Category("a", HOSTILE), "<img src=x onerror=alert(1)>": Number(0, 1)})
    table = {HOSTILE: ["a", HOSTILE], "<img src=x onerror=alert(1)>": [0.1, 0.2]}
    write_release(tmp_path / "out", schema, table, 2, note=HOSTILE, mechanism=HOSTILE)
    body = load(browser, write_report(tmp_path / "out", tmp_path / "r.html"))
    assert body.data["ready"] == "true"
    assert "error" not in body.data
    assert body.tags.count("script") == 2
    assert "img" not in body.tags
    assert HOSTILE in body.text


def test_a_single_release_without_error_or_pairs_is_drawn(browser: str, tmp_path: Path) -> None:
    write_release(tmp_path / "out", Schema(x=Number(5, 6)), {"x": [5.5]}, 1, expected_error=None, mechanism="paper")
    body = load(browser, write_report(tmp_path / "out", tmp_path / "r.html"))
    assert body.data["ready"] == "true"
    assert "error" not in body.data
    assert not body.shown_by_id["pairs"]
    assert not body.shown_by_id["quality"]


def test_the_page_says_what_errors_mean_and_what_the_release_can_be_used_for(
    browser: str, pages: tuple[Path, Path]
) -> None:
    """Real data stand at a normal of mean 0.2, the last release at one of mean 0.4: no column is good but ok."""
    body = load(browser, pages[1])
    for text in ("in standard deviations (sd) of the column", "ranges and categories", "means by group"):
        assert text in body.text
    assert "e^" not in body.text
    assert "eε" in body.text  # the power is raised
    found = drive(
        browser,
        pages[1],
        """
        const cells = (id) => [...document.querySelectorAll(`#${id} tbody tr`)].map((row) =>
          [...row.cells].map((cell) => cell.textContent));
        for (const id of ["questions", "worst-columns", "worst-pairs"]) result[id] = cells(id);
        result.samples = [...document.querySelectorAll("#rows table")].map((table) => table.tBodies[0].rows.length);
        result.title = document.title;
        """,
    )
    errors = [float(row[1].rstrip("%")) for row in found["worst-columns"]]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 10
    pairs = [float(row[1].rstrip("%")) for row in found["worst-pairs"]]
    assert pairs == sorted(pairs, reverse=True)
    assert len(pairs) == 10
    assert found["samples"] == [10, 10]
    assert found["title"].startswith("NOT PRIVATE: ")


def test_real_data_that_are_public_stand_there_without_a_warning(browser: str, tmp_path: Path) -> None:
    real = releases(tmp_path / "out", 2)
    body = load(browser, write_report(tmp_path / "out", tmp_path / "r.html", against=real, public=True))
    assert not body.shown_by_id["warning"]
    assert not body.shown_by_id["badge"]
    assert "Real data" in body.text
    assert "Real data, not private" not in body.text
    assert "Real, not private" not in body.text


def test_cards_of_a_row_end_together(browser: str, pages: tuple[Path, Path]) -> None:
    found = drive(
        browser,
        pages[1],
        """
        result.cards = [...document.querySelectorAll("#marginals > .card")].map((card) => {
          const { top, bottom } = card.getBoundingClientRect();
          return [Math.round(top), Math.round(bottom)];
        });
        """,
    )
    rows = dict[int, set[int]]()
    for top, bottom in found["cards"]:
        rows.setdefault(top, set()).add(bottom)
    assert 1 < len(rows) < len(found["cards"])
    assert all(len(ends) == 1 for ends in rows.values())


def test_bars_on_a_logarithmic_axis_are_as_high_as_their_shares(browser: str, pages: tuple[Path, Path]) -> None:
    """Nine tenths of the rows in a wide bin are nine tenths; and long names are broken between their words."""
    found = drive(
        browser,
        pages[0],
        """
        result.heights = heights({ log: true, edges: [0, 0.5, 0.6, 0.7] }, [0.9, 0.1, 0]);
        result.linear = heights({ log: false, edges: [0, 0.5, 0.6, 0.7] }, [0.9, 0.1, 0]);
        result.name = make("b", {}, ...breakable("stays_in.nights")).innerHTML;
        """,
    )
    assert found["heights"] == [0.9, 0.1, 0]
    assert found["linear"][0] == pytest.approx(0.18)
    assert found["name"] == "stays_<wbr>in.<wbr>nights"


def test_bounds_that_cut_one_value_are_on_the_page_as_evaluate_lists_them(browser: str, tmp_path: Path) -> None:
    """However rare; and what an automatic axis is, is said where there is one."""
    schema = Schema(hours=Number(0, 48), age=Number(0, 1000), even=Number(0, 1))
    made = {"hours": [24.0] * 2_000, "age": [5.0, 20.0] * 1_000, "even": [0.25, 0.75] * 1_000}
    write_release(tmp_path / "out", schema, made, 2_000)
    far = made | {"hours": [24.0] * 1_999 + [61_370.0], "age": [5.0, 20.0] * 998 + [5.0, 2_000.0, 5.0, 2_000.0]}
    body = load(browser, write_report(tmp_path / "out", tmp_path / "r.html", against=far))
    assert "age: 0.10 %; hours: 0.05 %." in body.text
    assert "Logarithmic axis: chosen by itself where most values" in body.text
    plain = {"hours": made["hours"], "even": made["even"]}
    write_release(tmp_path / "plain", Schema(hours=Number(0, 48), even=Number(0, 1)), plain, 2_000)
    other = load(browser, write_report(tmp_path / "plain", tmp_path / "p.html", against=plain))
    assert "ogarithmic axis" not in other.text


def test_heights_can_be_logarithmic(browser: str, pages: tuple[Path, Path]) -> None:
    found = drive(
        browser,
        pages[0],
        """
        const button = document.getElementById("tails");
        const labels = [...document.querySelectorAll("svg.histogram")];
        const least = () => labels.flatMap((svg) => [...svg.querySelectorAll("text")].map((text) => text.textContent));
        result.before = look().bars;
        result.linear = least();
        button.click();
        result.after = look().bars;
        result.logarithmic = least();
        button.click();
        result.again = look().bars;
        """,
    )
    assert found["before"] != found["after"]
    assert found["before"] == found["again"]
    assert "0%" in found["linear"]
    assert "0%" not in found["logarithmic"]


def test_whiskers_means_by_group_and_bars_that_held_are_drawn(browser: str, tmp_path: Path) -> None:
    """A page whose release brings what was measured: as `write_report` would find it beside the table."""
    synth = Synthesizer(SMALL, epsilon=4.0, seed=1, mechanism="marginals")
    table = {"n": [i % 4 for i in range(3_000)], "x": [i % 10 / 10 for i in range(3_000)], "town": ["a", "b"] * 1_500}
    synth.update(table)
    release = synth.release()
    publish(release, tmp_path / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bars, "of_folder", lambda _: Bars.of(release))
        page = write_report(tmp_path / "out", tmp_path / "r.html", against=table)
    found = drive(
        browser,
        page,
        """
        result.whiskers = [...document.querySelectorAll("svg .whisker")].map((path) => path.getAttribute("d"));
        result.rows = document.querySelectorAll("#marginals .rows .whisker:not([hidden])").length;
        result.means = [...document.querySelectorAll("#means .number")].map((cell) => cell.textContent);
        result.titles = [...document.querySelectorAll("#questions th")].map((cell) => cell.textContent);
        """,
    )
    assert len(found["whiskers"]) == 2
    assert found["rows"] == 2
    assert all("±" in text for text in found["means"])
    assert "Bars held" in found["titles"]


def page_of(columns: int, place: Path, short: Sequence[str] = ()) -> Path:
    """A page of so many columns beside real data, with long names but for some, and a long tail, of two releases."""
    kinds = [Number(0, 1_000, missing=True), Category(*(f"a rather long value {i}" for i in range(9))), Integer(0, 9)]
    names = [*short, *(f"a_rather_long_name_of_a_column_{i}" for i in range(len(short), columns))]
    schema = Schema({name: kinds[i % 3] for i, name in enumerate(names)})
    rng = np.random.default_rng(0)
    points = np.clip(rng.exponential(0.01, (300, columns)), 0, 0.49)
    for t in (200, 300):
        write_release(place / "out", schema, schema.decode(points[:t], "arrow"), t)
    return write_report(place / "out", place / "r.html", against=schema.decode(points[::-1], "arrow"))


@pytest.mark.parametrize("more", [(WIDE,), (WIDE, DARK)], ids=["light", "dark"])
@pytest.mark.parametrize("columns", [2, 30])
def test_nothing_sticks_out_of_a_phone_whatever_the_columns(
    browser: str, tmp_path: Path, columns: int, more: Sequence[str]
) -> None:
    page = page_of(columns, tmp_path)
    found = drive(
        browser,
        page,
        """
        result.background = getComputedStyle(document.body).backgroundColor;
        const buttons = [...document.querySelectorAll("#worst-columns button:not([hidden])")];
        result.rows = document.querySelectorAll("#worst-columns tbody tr:not([hidden])").length;
        for (const button of buttons) button.click();
        result.all = document.querySelectorAll("#worst-columns tbody tr:not([hidden])").length;
        result.over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
        """,
        more=more,
    )
    assert found["over"] == 0
    assert (found["rows"], found["all"]) == (min(columns, 10), columns)
    assert (found["background"] == "rgb(20, 23, 26)") == (DARK in more)
    assert sticks_out(browser, page, 400, more) == "0"


def sticks_out(browser: str, page: Path, width: int, more: Sequence[str] = (WIDE,)) -> str:
    """By how many pixels a page is too wide for a frame of this width."""
    report = """parent.postMessage(document.documentElement.scrollWidth - document.documentElement.clientWidth, "*");"""
    text = page.read_text(encoding="utf-8").replace('http-equiv="Content-Security-Policy"', 'name="policy"')
    inside = page.with_name("inside.html")
    inside.write_text(text.replace("</body>", f"<script>{report}</script></body>"), encoding="utf-8")
    outside = page.with_name("outside.html")
    outside.write_text(
        "<!DOCTYPE html><body><script>addEventListener('message', (e) => { document.body.dataset.over = e.data; });"
        f"</script><iframe src='{inside.name}' width='{width}' height='800'></iframe></body>",
        encoding="utf-8",
    )
    return load(browser, outside, more=more).data["over"]


def test_nothing_sticks_out_on_a_phone_and_the_page_is_short(browser: str, pages: tuple[Path, Path]) -> None:
    assert sticks_out(browser, pages[1], 360) == "0"
    script = "result.high = document.documentElement.scrollHeight;"
    assert drive(browser, pages[1], script, more=("--window-size=500,900",))["high"] < 7_000
