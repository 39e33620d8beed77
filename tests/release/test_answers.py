"""Answers of releases, and whether their bars hold."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from headwater import Category, Integer, Number, Schema, Synthesizer, unit_cube
from headwater.public import laws
from headwater.public.answers import Answer, Answers, AnswerTable
from headwater.public.cascade.around import CascadeAround
from headwater.public.marginals.around import MarginalsAround, Perturbed
from headwater.public.release import Release, TableModel
from headwater.public.replicates import Position, fresh_gaussian, fresh_joint, fresh_laplace

pytestmark = pytest.mark.filterwarnings("ignore")

WIDE = Schema(
    age=Integer(0, 99),
    pay=Number(0, 1000),
    town=Category("a", "b", "c", "d"),
    work=Category("x", "y", missing=True),
    rare=Category("no", "yes"),
)


def people(n: int, seed: int) -> dict[str, Any]:
    """Columns that depend on each other, with round and frequent values."""
    rng = np.random.default_rng(seed)
    town = rng.choice(4, n, p=[0.5, 0.3, 0.15, 0.05])
    age = np.clip(rng.normal(30 + 8 * town, 12), 0, 99).astype(int)
    pay = np.clip(rng.gamma(3, 40 + 2 * age), 0, 1000)
    pay = np.where(rng.random(n) < 0.4, np.round(pay, -2), pay)
    work = np.where(rng.random(n) < 0.3 + age / 200, "x", "y").astype(object)
    work[rng.random(n) < 0.1] = None
    return {
        "age": age,
        "pay": pay,
        "town": np.array(list("abcd"))[town],
        "work": work,
        "rare": np.where(rng.random(n) < 0.002, "yes", "no"),
    }


def release_of(schema: Schema, table: dict[str, Any], seed: int, epsilon: float = 1.0) -> Release:
    synth = Synthesizer(schema, epsilon=epsilon, seed=seed)
    synth.update({name: table[name] for name in schema.names})
    return synth.release()


@pytest.fixture(scope="module")
def wide() -> Release:
    return release_of(WIDE, people(20_000, 1), 1)


def test_an_answer_is_its_number() -> None:
    answer = Answer(0.25, 0.2, 0.3, 0.9, "measured", "share")
    assert answer * 4 == 1.0
    assert answer > 0.2
    assert f"{answer:.2f}" == "0.25"
    assert isinstance(answer, float)
    again = pickle.loads(pickle.dumps(answer))  # noqa: S301
    assert (again, again.low, again.high, again.how) == (answer, answer.low, answer.high, answer.how)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(0.3121, 0.3031, 0.3211, 0.9, "measured", "share"), "31.2 % ± 0.9 (90 %)"),
        (Answer(12345.0, 12225.0, 12465.0, 0.9, "measured", "count"), "12,345 ± 120 (90 %)"),
        (Answer(7.0, 0.0, 310.0, 0.9, "measured", "count"), "about 7 records, at most 310 (90 %)"),
        (Answer(0.512, 0.49, 0.534, 0.5, "modelled", "correlation"), "0.51 ± 0.02 (50 %)"),
        (Answer(3.0, 0.0, 9.0, 0.9, "not known"), "not known"),
        (Answer(86400.0, 0.0, 172800.0, 0.9, "measured", "moment"), "1970-01-02 00:00 ± 24 hours (90 %)"),
    ],
)
def test_an_answer_prints_its_bar(answer: Answer, text: str) -> None:
    assert str(answer) == text


def test_answers_are_what_the_rows_of_the_release_say(wide: Release) -> None:
    rows = wide.sample(kind="pandas")
    in_b = rows[rows.town == "b"]
    assert wide.count() == len(rows)
    assert wide.count({"town": "b"}) == len(in_b)
    assert wide.share({"age": (30, 40)}) == pytest.approx(rows.age.between(30, 40).mean())
    assert wide.share({"age": (30, 40)}, of={"town": "b"}) == pytest.approx(in_b.age.between(30, 40).mean())
    assert wide.share({"town": ["a", "c"]}) == pytest.approx(rows.town.isin(["a", "c"]).mean())
    assert wide.share({"work": None}) == pytest.approx(rows.work.isna().mean())
    assert wide.mean("age", where={"town": "b"}) == pytest.approx(in_b.age.mean())
    assert wide.correlation("age", "pay") == pytest.approx(np.corrcoef(rows.age, rows.pay)[0, 1], abs=1e-3)
    assert wide.quantile("age", 0.9) == np.sort(rows.age)[int(np.ceil(0.9 * len(rows))) - 1]


def test_answers_by_group_are_those_of_each_group(wide: Release) -> None:
    rows = wide.sample(kind="pandas")
    means, medians = wide.mean("pay", by="town"), wide.quantile("pay", by="town")
    assert isinstance(means, AnswerTable)
    assert isinstance(medians, AnswerTable)
    assert [group for group, _ in means] == list("abcd")
    for town, answer in means:
        assert answer == pytest.approx(rows.pay[rows.town == town].mean(), rel=1e-3)
        assert medians[town] == pytest.approx(rows.pay[rows.town == town].quantile(0.5, "lower"), rel=0.01)
        assert answer.low <= answer <= answer.high
    shares = wide.share(by="work")
    assert isinstance(shares, AnswerTable)
    assert [group for group, _ in shares] == ["x", "y", None]
    assert sum(answer for _, answer in shares) == pytest.approx(1)
    cells = wide.crosstab("town", "work")
    assert cells["b", None] == ((rows.town == "b") & rows.work.isna()).sum()


def test_a_table_of_answers_becomes_other_tables(wide: Release) -> None:
    table = wide.count(by="town")
    assert isinstance(table, AnswerTable)
    columns = table.columns()
    assert list(columns) == ["town", "answer", "low", "high", "how"]
    assert columns["town"] == list("abcd")
    assert table.to_arrow().to_pydict() == columns
    assert table.to_pandas()["answer"].tolist() == columns["answer"]
    assert "town" in str(table)
    assert "± " in str(table)


def test_bars_of_a_level_are_as_wide_as_that_needs(wide: Release) -> None:
    nine, five = (wide.share({"town": "a"}, level=level) for level in (0.9, 0.5))
    assert isinstance(nine, Answer)
    assert isinstance(five, Answer)
    assert 2.2 < nine.plus_minus / five.plus_minus < 2.8
    with pytest.raises(ValueError, match="level"):
        wide.count(level=90.0)


def test_how_an_answer_is_known(wide: Release) -> None:
    assert wide.share({"town": "a"}).how == "measured"
    unlikely = {"rare": "yes", "town": "d", "work": None}
    assert "about" in str(wide.count(unlikely))
    assert wide.mean("age", where=unlikely).how == "not known"
    narrow = release_of(Schema(x=Number(0, 1)), {"x": np.random.default_rng(0).random(3000) ** 3}, 1)
    assert narrow.share({"x": (0.50001, 0.50002)}).how == "finer than measured"


def test_a_question_that_makes_no_sense_is_refused(wide: Release) -> None:
    with pytest.raises(ValueError, match="no column"):
        wide.mean("wage")
    with pytest.raises(ValueError, match="no numbers"):
        wide.mean("town")
    with pytest.raises(ValueError, match="groups"):
        wide.count(by="pay")
    with pytest.raises(ValueError, match="between 0 and 1"):
        wide.quantile("age", 50)


def test_points_of_a_cube_are_asked_by_number() -> None:
    synth = Synthesizer(unit_cube(2), epsilon=1.0, seed=1)
    synth.update(np.random.default_rng(0).random((3000, 2)) ** 2)
    release = synth.release()
    half = release.share({"x0": (0.0, 0.25)})
    assert isinstance(half, Answer)
    assert half.low <= 0.5 <= half.high
    assert half.plus_minus < 0.2
    assert release.count({"x1": (0.0, 0.25)}) == pytest.approx(1500, abs=300)


# ---- whether bars hold


def questions(release: Release, seed: int) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    rng = np.random.default_rng(seed)
    for _ in range(12):
        low, high = sorted(float(release.quantile("pay", float(p))) for p in rng.random(2))
        yield "share", ({"pay": (low, high + 1)}, None, None), {}
        town = str(rng.choice(list("abc")))
        yield "share", ({"town": town, "age": (int(rng.integers(0, 40)), 60)}, None, None), {}
        yield "mean", ("pay", {"town": town}, None), {}
        yield "quantile", ("pay", float(rng.choice([0.25, 0.5, 0.75])), None, None), {}
        if "work" in str(release.schema):
            yield "share", ({"work": "x"}, {"town": town}, None), {}


def coverage(schema: Schema, seeds: range) -> float:
    inside = []
    for seed in seeds:
        table = people(12_000, seed)
        release = release_of(schema, table, seed)
        real = schema.encode({name: table[name] for name in schema.names})
        truth = Answers(TableModel(real, None), lambda real=real: real, None, schema, 0)  # type: ignore[arg-type, misc]
        for method, args, _ in questions(release, seed):
            bar = getattr(release._answers, method)(*args, 0.9)
            inside.append(bar.low <= float(getattr(truth, method)(*args, 0.9)) <= bar.high)
    return float(np.mean(inside))


THREE = Schema({name: WIDE.columns[name] for name in ("age", "pay", "town")})


@pytest.mark.parametrize("schema", [WIDE, THREE], ids=["marginals", "cascade"])
def test_bars_hold(schema: Schema) -> None:
    assert coverage(schema, range(3)) >= 0.85


def without_perturbation(patch: pytest.MonkeyPatch) -> None:
    """The plain bootstrap: truths are what the release says."""
    patch.setattr(Perturbed, "weights", lambda self: np.ones(len(self.counts)) / len(self.counts))
    patch.setattr(MarginalsAround, "_together", lambda self, places, codes, rng: places)
    patch.setattr(Position, "roughened", lambda self, positions, low, high, rng: positions)
    plain: Callable[..., Any] = CascadeAround._masses

    def masses(self: CascadeAround, rng: np.random.Generator) -> Any:  # noqa: ANN401 - an array
        self.deviation = np.zeros_like(self.deviation)
        return plain(self, rng)

    patch.setattr(CascadeAround, "_masses", masses)


@pytest.mark.parametrize("schema", [WIDE, THREE], ids=["marginals", "cascade"])
def test_bars_without_perturbed_truths_do_not_hold(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    without_perturbation(monkeypatch)
    assert coverage(schema, range(3)) < 0.85


def test_fresh_noise_has_the_variance_of_its_law() -> None:
    rng = np.random.default_rng(0)
    assert fresh_laplace(7.0, 40_000, rng).var() == pytest.approx(laws.IntegerLaplace(7.0).variance, rel=0.05)
    assert fresh_gaussian(7.0, 40_000, rng).var() == pytest.approx(49, rel=0.05)
    sizes = [1, 4, 1, 9]
    drawn = [fresh_joint(12.0, sizes, rng) for _ in range(4000)]
    for number, size in enumerate(sizes):
        found = np.concatenate([one[number] for one in drawn]).var()
        assert found == pytest.approx(laws.radii(12.0, tuple(sorted(sizes))).variance(size), rel=0.1)
