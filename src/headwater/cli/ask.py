"""`headwater ask`: questions to a release, answered with error bars."""

from __future__ import annotations

import csv
import errno
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli.console import out, say
from headwater.cli.exit_codes import reports_errors
from headwater.cli.options import NUMBER
from headwater.public.answers import Answer, AnswerTable
from headwater.public.categories import Category
from headwater.public.columns import Column
from headwater.public.folder import folders
from headwater.public.release import Release


@reports_errors
def command(
    path: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release, or a folder of them: then the last one.")],
    share: Annotated[
        bool, typer.Option("--share", help="The share of records; with --by alone, of each group.")
    ] = False,
    mean: Annotated[str | None, typer.Option(help="The mean of this column.")] = None,
    quantile: Annotated[str | None, typer.Option(help="A quantile of this column: --p says which.")] = None,
    p: Annotated[float, typer.Option("--p", help="Of --quantile: 0.5 is the median.", **NUMBER)] = 0.5,
    correlation: Annotated[str | None, typer.Option(help="The correlation of two columns: ONE,OTHER.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=VALUE, COLUMN=LOW..HIGH, COLUMN=A,B or COLUMN= for a missing value."),
    ] = None,
    of: Annotated[list[str] | None, typer.Option(help="Of --share: among these records only.")] = None,
    by: Annotated[list[str] | None, typer.Option(help="One answer for each value of this column.")] = None,
    level: Annotated[
        float, typer.Option(help="How often a bar is to hold what the data would have said.", **NUMBER)
    ] = 0.9,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
) -> None:
    """Answer a question from a release, with an error bar: how many records there are, unless another one is asked.

    Example: headwater ask releases --share --where payment=card
    """
    if sum(map(bool, (share, mean, quantile, correlation))) > 1:
        raise ValueError("ask one question at a time: --share, --mean, --quantile or --correlation")
    release = _release(path)
    columns = release._answers.named.columns
    conditions = _conditions(where or [], columns)
    common: dict[str, Any] = {"by": by or None, "level": level}
    if of and not share:
        raise ValueError("--of goes with --share; give --where instead")
    if share:
        found = release.share(conditions or None, of=_conditions(of or [], columns), **common)
    elif mean:
        found = release.mean(mean, where=conditions, **common)
    elif quantile:
        found = release.quantile(quantile, p, where=conditions, **common)
    elif correlation:
        one, _, other = correlation.partition(",")
        found = release.correlation(one, other, where=conditions, **common)
    else:
        found = release.count(conditions, **common)
    table = found if isinstance(found, AnswerTable) else AnswerTable((), ((),), (found,))
    if as_json:
        answers = table.columns()
        rows = [dict(zip(answers, row, strict=True)) for row in zip(*answers.values(), strict=True)]
        out.print_json(json.dumps(rows if found is table else rows[0], default=str), ensure_ascii=True)
        return
    if as_csv:
        answers = table.columns()
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answers)
        writer.writerows(zip(*answers.values(), strict=True))
        return
    for line in str(found).splitlines():
        say(f"{line}  [{found.how}]" if isinstance(found, Answer) else line)


def _release(path: Path) -> Release:
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, "there is nothing here", str(path))
    if path.is_dir() and not (path / "card.json").exists():
        inside = [place for place in folders(path) if (place / "card.json").exists()]
        if not inside:
            raise FileNotFoundError(errno.ENOENT, "there are no releases here", str(path))
        path = inside[-1]
    return Release.load(path)


def _conditions(texts: list[str], columns: Any) -> dict[str, Any]:  # noqa: ANN401 - columns by name
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in columns:
            raise ValueError(f"a condition is COLUMN=VALUE; the columns are {', '.join(columns)}")
        found[name] = _value(value, columns[name])
    return found


def _value(text: str, column: Column) -> Any:  # noqa: ANN401 - a value, a range or a list
    if isinstance(column, Category) and text in map(str, column.values):
        return text
    if not text:
        return None
    low, dots, high = text.partition("..")
    if dots:
        return low or None, high or None
    return text.split(",") if "," in text else text
