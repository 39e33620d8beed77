import hashlib
import importlib
import json
import stat
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater import FileRefusedError, Synthesizer, evaluate, unit_cube
from headwater.audit.conformance import SCHEMAS, Subject
from headwater.evaluation.axes import column_axes
from headwater.evaluation.bars import Bars
from headwater.evaluation.evaluation import NOT_PRIVATE
from headwater.evaluation.inputs import rows_of
from headwater.evaluation.yardstick import table_of as table_of_points
from headwater.public import protocol as registry
from headwater.public.categories import Boolean, Category
from headwater.public.folder import publish
from headwater.public.moments import Datetime, TimeOfDay
from headwater.public.numbers import Integer, Number
from headwater.public.schema import Schema
from headwater.report import write_report
from headwater.report.contents import Cuts
from headwater.report.quality import quality

# pyarrow ships no types
pa, csv, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.csv", "pyarrow.parquet"))

SMALL = Schema(n=Integer(0, 3), x=Number(0, 1, missing=True), town=Category("a", "b"))
HOSTILE = "</script><script>document.body.dataset.error='run'</script><!--{{style}}{{data}}\u2028&lt;\"'"
Table = dict[str, list[Any]]


def table_of(rows: int, shift: int = 0) -> Table:
    """Rows of `SMALL` that are known by their number."""
    numbers = range(shift, shift + rows)
    return {
        "n": [i % 4 for i in numbers],
        "x": [None if i % 5 == 0 else (i % 10) / 10 for i in numbers],
        "town": ["b" if i % 3 == 0 else "a" for i in numbers],
    }


def write_release(out: Path, schema: Any, table: Any, t: int, *, format_: str = "parquet", **card: Any) -> Path:  # noqa: ANN401
    """A release folder as the publisher leaves it."""
    start = card.get("span", [0, t])[0]
    folder = out / (f"release-{t:012d}" + (f"-since-{start:012d}" if start else ""))
    folder.mkdir(parents=True)
    arrow = table if isinstance(table, pa.Table) else pa.table(table)
    data = folder / f"data.{format_}"
    (csv.write_csv if format_ == "csv" else parquet.write_table)(arrow, data)
    content = {
        "headwater": "0.1.0",
        "card": 1,
        "time": f"2026-01-{1 + t % 28:02d}T00:00:00+00:00",
        "t": t,
        "span": [0, t],
        "rows": arrow.num_rows,
        "epsilon": 1.0,
        "neighbours": "replace one record (event level)",
        "mechanism": "cascade",
        "expected_error": {"typical": 0.1 / t, "upper": 0.2 / t},
        "schema": schema.to_dict(),
        "data": data.name,
        "sha256": hashlib.sha256(data.read_bytes()).hexdigest(),
        "note": "Synthetic data.",
    }
    (folder / "card.json").write_text(json.dumps(content | card), encoding="utf-8")
    return folder


class Elements(HTMLParser):
    """The scripts of a page, and every address that it could load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts, self.addresses, self.inside = list[str](), list[str](), False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "data")]

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[-1] += data


def contents(page: Path) -> dict[str, Any]:
    """The data of a page."""
    found: dict[str, Any] = json.loads(Elements(page.read_text(encoding="utf-8")).scripts[0])
    return found


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Three releases of `SMALL`, of 20, 40 and 60 rows."""
    for t in (60, 20, 40):
        write_release(tmp_path / "out", SMALL, table_of(t, shift=7), t)
    return tmp_path / "out"


def test_the_page_counts_every_release_over_bins_of_the_schema(out: Path, tmp_path: Path) -> None:
    found = contents(write_report(out, tmp_path / "r.html"))
    assert [release["t"] for release in found["releases"]] == [20, 40, 60]
    assert [column["name"] for column in found["columns"]] == ["n", "x", "town"]
    n, x, town = found["columns"]
    assert n["counts"] == [[5, 5, 5, 5, 0], [10, 10, 10, 10, 0], [15, 15, 15, 15, 0]]
    assert [sum(counts) for counts in x["counts"]] == [20, 40, 60]
    assert [counts[-1] for counts in x["counts"]] == [4, 8, 12]  # every fifth is missing
    assert town["labels"] == ["a", "b"]
    assert town["counts"][0] == [14, 6, 0]  # of the numbers 7 to 26 six are multiples of three


def test_every_column_kind_has_bins_and_labels(tmp_path: Path) -> None:
    schema = Schema(
        day=Datetime("2024-01-01", "2024-01-31", step="1d"),
        clock=TimeOfDay(),
        ok=Boolean(),
        many=Integer(0, 999),
        code=Category(7, 8),
    )
    points = np.random.default_rng(0).random((500, 5)) * [0.9, 1, 1, 0.9, 1]
    write_release(tmp_path / "out", schema, schema.decode(points, "arrow"), 500)
    day, clock, ok, many, code = contents(write_report(tmp_path / "out", tmp_path / "r.html"))["columns"]
    assert len(day["names"]) == 31
    assert day["names"][0] == "2024-01-01 00:00 to 2024-01-02 00:00"
    assert [label for _, label in day["ticks"]][:2] == ["1 Jan", "8 Jan"]
    assert [label for _, label in clock["ticks"]][1] == "04:00"
    assert clock["names"][0] == "00:00:00 to 00:30:00"
    assert ok["labels"] == ["false", "true"]
    assert many["names"][:2] == ["0 to 19", "20 to 40"]
    assert np.ptp(np.diff(many["edges"])) < 0.00101  # bins differ by a value at most, also the last one
    assert code["labels"] == ["7", "8"]
    for column in (day, clock, many):
        assert sum(column["counts"][0]) == 500
        assert all(0 <= place <= 1 for place, _ in column["ticks"])
        assert len(column["names"]) == len(column["edges"]) - 1 == len(column["counts"][0]) - 1
        assert column["edges"][0] == 0
        assert column["edges"][-1] == 1


def test_values_fall_into_the_bin_that_is_named_after_them(tmp_path: Path) -> None:
    schema = Schema(n=Integer(-50, 60), x=Number(10, 20))
    write_release(tmp_path / "out", schema, {"n": [60, -50, 0], "x": [10.0, 20.0, 12.6]}, 3)
    n, x = contents(write_report(tmp_path / "out", tmp_path / "r.html"))["columns"]
    held = [name for name, count in zip(n["names"], n["counts"][0], strict=False) if count]
    assert held == ["-50 to -48", "-2 to 0", "58 to 60"]
    held = [name for name, count in zip(x["names"], x["counts"][0], strict=False) if count]
    assert held == ["10 to 10.2083", "12.5 to 12.7083", "19.7917 to 20"]


def test_of_very_many_categories_the_fullest_keep_a_bar_and_none_is_lost(tmp_path: Path) -> None:
    values = [f"v{i}" for i in range(100)]
    schema = Schema(c=Category(*values))
    rows = values + ["v99"] * 5 + ["v50"] * 3
    write_release(tmp_path / "out", schema, {"c": rows}, len(rows))
    (column,) = contents(write_report(tmp_path / "out", tmp_path / "r.html"))["columns"]
    assert len(column["labels"]) == 24
    assert column["labels"][-1] == "77 others"
    kept = dict(zip(column["labels"], column["counts"][0], strict=False))
    assert (kept["v99"], kept["v50"], kept["77 others"]) == (6, 4, 77)


def test_the_page_loads_nothing_and_runs_only_its_own_script(out: Path, tmp_path: Path) -> None:
    page = write_report(out, tmp_path / "r.html").read_text(encoding="utf-8")
    elements = Elements(page)
    assert elements.addresses == ["#columns"]
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "default-src 'none'" in page
    assert "url(" not in page
    assert "@import" not in page


def test_without_real_data_the_page_holds_none_and_anyone_may_read_it(out: Path, tmp_path: Path) -> None:
    page = write_report(out, tmp_path / "r.html")
    found = contents(page)
    assert found["warning"] is None
    assert found["real"] is None
    assert all("real" not in part for part in found["columns"] + found["pairs"])
    assert stat.S_IMODE(page.stat().st_mode) == 0o644


def test_with_real_data_the_page_says_so_and_only_its_owner_may_read_it(out: Path, tmp_path: Path) -> None:
    page = write_report(out, tmp_path / "r.html", against=table_of(60))
    assert contents(page)["warning"] == NOT_PRIVATE
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_each_release_is_compared_with_the_records_that_it_is_about(out: Path, tmp_path: Path) -> None:
    """Records come in batches that end nowhere near releases, and more of them than the last release knows."""
    records = {"n": [0] * 15 + [1] * 15 + [2] * 15 + [3] * 55, "x": [0.5] * 100, "town": ["a"] * 100}
    write_release(out, SMALL, table_of(20), 60, span=[40, 60])
    whole = pa.table(records)
    batches = [whole.slice(start, 13) for start in range(0, 100, 13)]
    found = contents(write_report(out, tmp_path / "r.html", against=iter(batches)))
    spans = [(release["start"], release["end"]) for release in found["releases"]]
    assert spans == [(0, 20), (0, 40), (0, 60), (40, 60)]
    assert found["columns"][0]["real"] == [[15, 5, 0, 0, 0], [15, 15, 10, 0, 0], [15, 15, 15, 15, 0], [0, 0, 5, 15, 0]]
    (n,) = (column for column in found["quality"]["columns"] if column["name"] == "n")
    assert n["share"] == 0.5  # of the last one: 5 and 15 of two values, 5 of each of four
    assert found["real"]["rows"] == 60
    assert found == contents(write_report(out, tmp_path / "r.html", against=whole))


def test_real_data_that_end_early_are_compared_as_far_as_they_go(out: Path, tmp_path: Path) -> None:
    found = contents(write_report(out, tmp_path / "r.html", against=table_of(30)))
    assert [sum(counts) for counts in found["columns"][0]["real"]] == [20, 30, 30]
    assert found["real"]["rows"] == 30


def test_real_data_are_read_no_further_than_the_last_release(out: Path, tmp_path: Path) -> None:
    def batches() -> Iterator[Table]:
        yield table_of(60)
        raise AssertionError("nobody needs these records")

    write_report(out, tmp_path / "r.html", against=batches())


def test_what_is_half_written_or_something_else_is_left_out(out: Path, tmp_path: Path) -> None:
    (out / ".release-x1y2").mkdir()
    (out / "release-notes.txt").write_text("no folder")
    (out / "notes").mkdir()
    assert len(contents(write_report(out, tmp_path / "r.html"))["releases"]) == 3


def change(out: Path, **entries: object) -> None:
    """Alter a card."""
    path = out / "release-000000000040" / "card.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"card": 2}, "newer"),
        ({"card": "one"}, "not a card"),
        ({"t": "forty"}, "'t'"),
        ({"t": 10**400}, "no stream has so many records"),
        ({"rows": 41}, "40 rows, but the card says 41"),
        ({"span": [30, 20]}, "'span'"),
        ({"epsilon": 2.0}, "epsilon differs"),
        ({"schema": Schema(n=Integer(0, 4)).to_dict()}, "schema differs"),
        ({"sha256": "0" * 64}, "altered"),
        ({"data": "../secret.parquet"}, "'data'"),
        ({"data": "gone.parquet"}, "is gone"),
        ({"expected_error": {"typical": "small"}}, "'expected_error'"),
    ],
)
def test_a_wrong_card_is_refused_by_name(out: Path, tmp_path: Path, entries: dict[str, object], message: str) -> None:
    change(out, **entries)
    with pytest.raises(FileRefusedError, match=message) as caught:
        write_report(out, tmp_path / "r.html")
    assert "release-000000000040" in str(caught.value)
    assert not (tmp_path / "r.html").exists()


def test_a_damaged_card_or_file_is_refused_by_name(out: Path, tmp_path: Path) -> None:
    folder = out / "release-000000000040"
    (folder / "data.parquet").write_bytes(b"PAR1 but not really")
    change(out, sha256=hashlib.sha256(b"PAR1 but not really").hexdigest())
    with pytest.raises(FileRefusedError, match=r"release-000000000040.data\.parquet: .*damaged"):
        write_report(out, tmp_path / "r.html")
    (folder / "card.json").write_text('{"card": 1, "t": ')
    with pytest.raises(FileRefusedError, match=r"release-000000000040.card\.json"):
        write_report(out, tmp_path / "r.html")


def test_a_folder_without_releases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileRefusedError, match="no releases"):
        write_report(tmp_path, tmp_path / "r.html")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        write_report(tmp_path / "nowhere", tmp_path / "r.html")


def test_lines_over_releases_have_round_labels_where_they_belong(out: Path, tmp_path: Path) -> None:
    """Published on the 21st, the 13th and the 5th: not in order, so releases are numbered."""
    write_release(out, SMALL, table_of(5), 60, span=[55, 60], expected_error=None)
    found = contents(write_report(out, tmp_path / "r.html"))
    growth = found["growth"]
    assert (growth["x"]["label"], growth["x"]["ticks"]) == (
        "release", [[0, "1"], [0.333333, "2"], [0.666667, "3"], [1, "4"]],
    )  # fmt: skip
    assert growth["y"]["ticks"][:2] == [[0, "0"], [0.166667, "10"]]
    assert growth["series"] == [[0, 0.333333], [0.333333, 0.666667], [0.666667, 1], [1, 0.083333]]
    assert [up for _, up in growth["dashed"]] == [0.333333, 0.666667, 1, 1]


def test_times_and_magnitudes_get_axes_of_their_own(tmp_path: Path) -> None:
    for t, hour in ((100, 0), (10_000, 6), (1_000_000, 12)):
        time = f"2026-03-01T{hour:02d}:00:00+02:00"
        write_release(tmp_path / "out", SMALL, table_of(10), t, time=time, span=[t - 10, t])
    found = contents(write_report(tmp_path / "out", tmp_path / "r.html"))
    assert found["growth"]["x"]["label"] == "published, UTC"
    hours = ["22:00", "00:00", "02:00", "04:00", "06:00", "08:00", "10:00"]
    assert found["growth"]["x"]["ticks"] == [[pytest.approx(i / 6), hour] for i, hour in enumerate(hours)]
    assert [place for place, _ in found["growth"]["series"]] == [0, 0.5, 1]
    rises = ["0", "200,000", "400,000", "600,000", "800,000", "1,000,000"]
    assert [label for _, label in found["growth"]["y"]["ticks"]] == rises


def test_of_very_many_releases_an_even_part_is_shown_with_both_ends(tmp_path: Path) -> None:
    for t in range(1, 132):
        write_release(tmp_path / "out", SMALL, table_of(t), t)
    found = contents(write_report(tmp_path / "out", tmp_path / "r.html"))
    shown = [release["t"] for release in found["releases"]]
    assert found["total"] == 131
    assert len(shown) == 60
    assert (shown[0], shown[-1]) == (1, 131)
    assert set(np.diff(shown)) <= {2, 3}


def test_few_pairs_are_all_drawn_with_names_on_the_side(out: Path, tmp_path: Path) -> None:
    found = contents(write_report(out, tmp_path / "r.html"))
    assert [(pair["x"], pair["y"]) for pair in found["pairs"]] == [(0, 1), (0, 2), (1, 2)]
    frame = found["pairs"][0]["frames"][0]
    assert (frame["rows"], frame["missing"]) == (20, 4)


def test_of_many_pairs_those_are_drawn_that_depend_most_in_the_last_release(tmp_path: Path) -> None:
    schema = Schema(**{f"c{i}": Number(0, 1) for i in range(6)})
    values = np.random.default_rng(0).random((2_000, 6))
    values[:, 4] = values[:, 1]
    write_release(tmp_path / "out", schema, {f"c{i}": values[:, i] for i in range(6)}, 2_000)
    found = contents(write_report(tmp_path / "out", tmp_path / "r.html"))
    assert len(found["pairs"]) == 6
    assert (found["pairs"][0]["x"], found["pairs"][0]["y"]) == (1, 4)


def test_beside_real_data_the_worst_pairs_are_drawn_as_well(tmp_path: Path) -> None:
    """Columns c4 and c5 are one and the same in the real data only; of the others only c0 and c1 depend."""
    schema = Schema({f"c{i}": Number(0, 1) for i in range(6)})
    points = np.random.default_rng(0).random((2_000, 6))
    points[:, 1] = points[:, 0]
    real = points.copy()
    real[:, 5] = real[:, 4]
    write_release(tmp_path / "out", schema, schema.decode(points, "arrow"), 2_000)
    pairs = contents(write_report(tmp_path / "out", tmp_path / "r.html", against=schema.decode(real, "arrow")))["pairs"]
    drawn = [(pair["x"], pair["y"]) for pair in pairs]
    assert drawn[0] == (0, 1)
    assert (4, 5) in drawn
    assert len(drawn) == len(set(drawn)) <= 10
    without = contents(write_report(tmp_path / "out", tmp_path / "r.html"))["pairs"]
    assert drawn[:6] == [(pair["x"], pair["y"]) for pair in without]


def test_chosen_pairs_are_drawn_as_they_were_chosen(out: Path, tmp_path: Path) -> None:
    found = contents(write_report(out, tmp_path / "r.html", pairs=[("town", "n")]))
    assert [(pair["x"], pair["y"]) for pair in found["pairs"]] == [(2, 0)]
    for wrong in [("n", "age")], [("n", "n")]:
        with pytest.raises(ValueError, match="pairs"):
            write_report(out, tmp_path / "r.html", pairs=wrong)


def test_the_page_of_forty_releases_and_six_columns_stays_small(tmp_path: Path) -> None:
    schema = Schema(**{f"c{i}": Number(0, 1) for i in range(6)})
    rng = np.random.default_rng(0)
    for t in range(2_000, 42_000, 1_000):
        write_release(tmp_path / "out", schema, {f"c{i}": rng.random(2_000) for i in range(6)}, t)
    real = rng.random((41_000, 6))
    page = write_report(tmp_path / "out", tmp_path / "r.html", against={f"c{i}": real[:, i] for i in range(6)})
    assert page.stat().st_size < 2_000_000


def test_csv_releases_give_the_same_page(out: Path, tmp_path: Path) -> None:
    for t in (20, 40, 60):
        write_release(tmp_path / "text", SMALL, table_of(t, shift=7), t, format_="csv")
    first, second = (contents(write_report(place, tmp_path / "r.html", name="x")) for place in (out, tmp_path / "text"))
    assert first == second


def test_points_of_the_cube_can_be_reported(tmp_path: Path) -> None:
    points = np.random.default_rng(0).random((50, 2))
    write_release(tmp_path / "out", unit_cube(2), {"x0": points[:, 0], "x1": points[:, 1]}, 50)
    found = contents(write_report(tmp_path / "out", tmp_path / "r.html", against=points))
    assert [column["name"] for column in found["columns"]] == ["x0", "x1"]
    assert found["quality"]["columns"][0]["share"] == 0


def test_a_schema_that_is_not_the_one_on_the_card_is_refused(out: Path, tmp_path: Path) -> None:
    write_report(out, tmp_path / "r.html", schema=SMALL)
    with pytest.raises(FileRefusedError, match="not the given one"):
        write_report(out, tmp_path / "r.html", schema=Schema(n=Integer(0, 3)))


def test_progress_is_told(out: Path, tmp_path: Path) -> None:
    shown = list[tuple[str, int, int | None]]()
    real = [table_of(25), table_of(50)]
    write_report(out, tmp_path / "r.html", against=real, progress=lambda *news: shown.append(news))
    assert shown[0] == ("releases", 0, 3)
    assert shown[1:3] == [("real rows", 25, 60), ("real rows", 60, 60)]
    assert shown[3:] == [("releases", i, 3) for i in (1, 2, 3)]


def test_real_data_that_are_public_need_no_warning(out: Path, tmp_path: Path) -> None:
    page = write_report(out, tmp_path / "r.html", against=table_of(60), public=True)
    found = contents(page)
    assert found["warning"] is None
    assert found["real"] == {"rows": 60, "public": True, "shortage": None}
    assert stat.S_IMODE(page.stat().st_mode) == 0o644


def test_the_page_names_the_data_and_the_run(out: Path, tmp_path: Path) -> None:
    assert contents(write_report(out, tmp_path / "r.html", name="Trips"))["names"] == {"data": "Trips", "run": ""}
    write_release(tmp_path / "trips" / "releases", SMALL, table_of(5), 5, run="abc", mechanism_reason="as asked")
    found = contents(write_report(tmp_path / "trips" / "releases", tmp_path / "r.html"))
    assert found["names"] == {"data": "trips", "run": "abc"}
    assert found["card"]["mechanism_reason"] == "as asked"


def test_real_rows_that_are_no_records_are_left_out(tmp_path: Path) -> None:
    schema = Schema(n=Integer(0, 9), town=Category("a", "b", other="b")).with_bad_rows("null")
    write_release(tmp_path / "out", schema, {"n": [3] * 4, "town": ["b"] * 4}, 4)
    (tmp_path / "real.csv").write_text("n,town\n7,a\noops,a\n12,elsewhere\n4,b\n5,beyond the span\n")
    rows = rows_of([tmp_path / "real.csv"], schema, batch_rows=2)
    shown = contents(write_report(tmp_path / "out", tmp_path / "r.html", against=rows))["sample"]
    assert sorted(shown["real"]) == [["4", "b"], ["7", "a"], ["9", "b"]]
    assert shown["synthetic"][0] == ["3", "b"]


def test_of_many_real_rows_ten_are_shown_from_what_the_release_is_about(tmp_path: Path) -> None:
    schema = Schema(x=Integer(0, 200))
    write_release(tmp_path / "out", schema, {"x": [1] * 50}, 100, span=[50, 100], rows=50)
    real = ({"x": list(range(start, start + 30))} for start in range(0, 120, 30))
    shown = contents(write_report(tmp_path / "out", tmp_path / "r.html", against=real))["sample"]["real"]
    numbers = {int(value) for (value,) in shown}
    assert len(shown) == len(numbers) == 10
    assert min(numbers) >= 50
    assert max(numbers) < 100


def test_a_long_tail_gets_a_logarithmic_axis_and_loses_no_row(tmp_path: Path) -> None:
    schema = Schema(pay=Number(0, 10_000), visits=Integer(0, 5_000), even=Number(0, 1))
    rng = np.random.default_rng(0)
    table = {"pay": rng.lognormal(2, 1, 1_000), "visits": rng.geometric(0.2, 1_000), "even": rng.random(1_000)}
    write_release(tmp_path / "out", schema, table, 1_000)
    pay, visits, even = contents(write_report(tmp_path / "out", tmp_path / "r.html"))["columns"]
    assert (pay["log"], visits["log"], even["log"]) == (True, True, False)
    for column in (pay, visits):
        counts = column["counts"][0]
        assert sum(counts) == 1_000
        assert max(counts) < 400  # of equal parts of the range the first would hold nearly all
        assert {"0", "10", "100"} <= {label for _, label in column["ticks"]}
        places = [place for place, _ in column["ticks"]]
        assert places == sorted(places)
    ones = visits["names"].index("1")
    assert visits["counts"][0][ones] == (table["visits"] == 1).sum()


def test_whole_numbers_with_a_bar_each_need_no_logarithmic_axis(tmp_path: Path) -> None:
    schema = Schema(babies=Integer(0, 6), repeated=Integer(0, 1), visits=Integer(0, 400))
    table = {"babies": [0] * 99 + [1], "repeated": [0] * 99 + [1], "visits": [0] * 50 + [1] * 50}
    write_release(tmp_path / "out", schema, table, 100)
    found = contents(write_report(tmp_path / "out", tmp_path / "r.html"))
    assert [column["log"] for column in found["columns"]] == [False, False, True]


def test_a_single_release_is_number_one(tmp_path: Path) -> None:
    write_release(tmp_path / "out", SMALL, table_of(3), 3)
    growth = contents(write_report(tmp_path / "out", tmp_path / "r.html"))["growth"]
    assert growth["x"]["ticks"] == [[0.5, "1"]]
    assert all("." not in label for _, label in growth["y"]["ticks"])


@pytest.mark.parametrize("mechanism", registry.names())
def test_releases_of_every_mechanism_are_drawn(tmp_path: Path, mechanism: str) -> None:
    publish(Subject(mechanism, SCHEMAS["table"]).release_once(300), tmp_path / "out", format="csv")
    assert mechanism in write_report(tmp_path / "out", tmp_path / "r.html").read_text()


def test_the_page_says_the_same_errors_as_evaluate(tmp_path: Path) -> None:
    schema = Schema(debt=Integer(0, 100_000), age=Integer(0, 99), town=Category("a", "b"))
    rng = np.random.default_rng(0)
    real = {"debt": rng.integers(0, 50_000, 2_000), "age": rng.integers(0, 100, 2_000)}
    real["town"] = rng.choice(["a", "b"], 2_000)
    made = real | {"age": np.sort(real["age"]) // 2}
    folder = write_release(tmp_path / "out", schema, {key: values.tolist() for key, values in made.items()}, 2_000)
    found = evaluate(real, folder)
    quality = contents(write_report(tmp_path / "out", tmp_path / "r.html", against=real))["quality"]
    assert [(c["name"], c["share"], c["w1"]) for c in quality["columns"]] == [
        (c.name, c.share, c.w1) for c in found.columns
    ]
    assert [(p["x"], p["y"], p["share"]) for p in quality["pairs"]] == list(found.pairs)
    assert len(quality["questions"]) == len(found.questions)
    (means,) = (table for table in quality["groups"] if table["column"] == "age")
    ages = [real["age"][real["town"] == town].mean() for town in "ab"]
    assert [row["real"] for row in means["rows"]] == pytest.approx(ages)
    assert [row["group"] for row in means["rows"]] == ["a", "b"]


def measured(rows: int, schema: Schema = SMALL, seed: int = 1) -> tuple[Table, Bars, Any]:
    """A table, the error bars of a release of it, and the release."""
    synth = Synthesizer(schema, epsilon=4.0, seed=seed, mechanism="marginals")
    table = table_of(rows)
    synth.update(table)
    release = synth.release()
    bars = Bars.of(release)
    assert bars is not None
    return table, bars, release


def test_whiskers_are_as_wide_as_the_bars_of_shares() -> None:
    """Of a bin's share they are those of the release's own answer, up to the records of the replicates."""
    _, bars, release = measured(4_000)
    columns = column_axes(SMALL)
    cuts = Cuts.choose(columns, [], table_of_points(release.points(), columns))
    n, _, town = cuts.whiskers(bars)
    for half, where in ((n[0], {"n": 0}), (town[1], {"town": "b"})):
        answer = release.share(where)
        assert half == pytest.approx(max(answer.high - answer, answer - answer.low), rel=0.02)


def test_without_real_data_the_errors_are_expected_and_bars_stand_around_means() -> None:
    table, bars, release = measured(4_000)
    columns = column_axes(SMALL)
    last = table_of_points(release.points(), columns)
    alone = quality(columns, last, bars, None, None)
    assert all(one["expected"] and one["measured"] is None for one in alone["questions"])
    assert all(column["share"] is None and 0 < column["expected"] < 0.1 for column in alone["columns"])
    beside = quality(columns, last, bars, evaluate(table, release), table_of_points(SMALL.encode(table), columns))
    assert all(0 <= one["held"] <= 1 for one in beside["questions"] if one["measured"])
    assert sum(one["measured"] is not None for one in beside["questions"]) >= 4
    for means in beside["groups"]:
        assert all(row["half"] > 0 and row["real"] is not None for row in means["rows"])
    assert [one["half"] is not None for one in beside["correlations"]] == [True] * len(beside["correlations"])
