"""The error that is told is that of the first record that is none, whatever is wrong with it and with later ones."""

from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater import Category, Integer, Number, Schema, TableError
from headwater.evaluation.inputs import rows_of
from headwater.run import Run, RunConfig, Schedule, feed
from headwater.run.sink import FolderSink
from headwater.secret.read.source import open_source

SCHEMA = Schema(a=Integer(0, 9, outside="error"), b=Category("p", "q"), c=Number(0, 1, missing=True))
GOOD = "1,p,0.5\n"
WRONG = {
    "value": "1,nobody,0.5\n",
    "beyond a bound": "99,p,0.5\n",
    "missing": ",p,0.5\n",
    "no number": "one,p,0.5\n",
    "no number, in a later column": "1,p,half\n",
    "blank": "\n",
    "fields": "1,p,0.5,7\n",
    "quote": '1,p"p",0.5\n',
    "return": "1,p\r,0.5\n",
    "NUL": "1,p\0,0.5\n",
    "never closed": '1,"p,0.5\n',
}


def error_of(path: Path, options: dict[str, Any]) -> TableError:
    """What stops a run over a file."""
    run = Run.open(RunConfig(SCHEMA, 1.0, seed=1), FolderSink(path.parent / "out"), schedule=Schedule.parse("100"))
    with run, open_source(path, SCHEMA, **options) as source, pytest.raises(TableError) as run_error:
        feed(run, source)
    assert run.t % options["batch_rows"] == 0  # of a refused batch nothing is counted
    with pytest.raises(TableError) as evaluate_error:
        list(rows_of(str(path), SCHEMA, **options))
    assert str(run_error.value) == str(evaluate_error.value)
    return run_error.value


@pytest.mark.filterwarnings("ignore::headwater.secret.noise.SeededRunWarning")
@pytest.mark.parametrize(("first", "second"), list(permutations(WRONG, 2)), ids=repr)
@pytest.mark.parametrize("sizes", [{}, {"block_bytes": 32}, {"batch_rows": 4}], ids=["whole", "small blocks", "4 rows"])
def test_the_first_of_two_wrong_lines_is_told(tmp_path: Path, first: str, second: str, sizes: dict[str, int]) -> None:
    path = tmp_path / "in.csv"
    path.write_text("a,b,c\n" + 5 * GOOD + WRONG[first] + 2 * GOOD + WRONG[second] + GOOD, newline="")
    alone = tmp_path / "alone.csv"
    alone.write_text("a,b,c\n" + 5 * GOOD + WRONG[first] + GOOD, newline="")
    sizes = {"batch_rows": 100} | sizes
    error = error_of(path, sizes)
    assert error.line == 7
    assert error.problem == error_of(alone, sizes).problem


def test_records_of_several_lines_are_counted_as_lines(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    schema = Schema(a=Category("p", "q\nq"), b=Integer(0, 9))
    path.write_text('a,b\n"q\nq",1\nnobody,2\n"q\nq",3,4\n')
    with (
        pytest.raises(TableError, match=r"line 4.*none of the listed"),
        open_source(path, schema, multiline=True) as source,
    ):
        next(source)


def test_the_first_wrong_line_of_json_is_told(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"a": 1, "b": "p"}\n{"a": 1, "b": "nobody"}\n{"a": "x", "b": "p"}\nnot JSON\n')
    assert error_of(path, {"batch_rows": 100}).line == 2


@pytest.mark.parametrize("rows", [{"a": [1, 99, 1], "b": ["p", "p", "no"]}, {"a": [1, 1, 99], "b": ["p", "no", "p"]}])
def test_the_first_wrong_row_of_a_table_is_told_whichever_column_it_is_in(rows: dict[str, list[Any]]) -> None:
    table = pa.table(rows | {"c": [0.5, None, 0.5]})
    with pytest.raises(TableError) as caught:
        SCHEMA.encode(table)
    assert caught.value.row == 1
