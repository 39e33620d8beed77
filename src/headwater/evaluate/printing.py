"""An evaluation as text and as tables in a terminal. NOT PRIVATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headwater.evaluate.evaluation import MEANING, NOT_PRIVATE, WORST, Evaluation
from headwater.evaluate.meaning import BEYOND, FINER, grade, in_sixteenths

if TYPE_CHECKING:
    from rich.console import Group

Cells = list[tuple[str, ...]]


def summary(found: Evaluation) -> list[tuple[str, str]]:
    """Lines of a label and a finding."""
    (one_way, two_way), plain = found.judged_means, found.plain_means
    lines = [
        ("rows", f"{found.rows[0]:,} real, {found.rows[1]:,} synthetic"),
        ("error of one column", f"{one_way:.4f} mean, {found.worst_column:.4f} worst"),
        *([] if plain[0] is None else [("", in_sixteenths(plain[0]))]),
    ]
    if found.ranked_pairs:
        lines.append(("error of two columns", f"{two_way:.4f} mean, {found.judged_pairs[0][2]:.4f} worst"))
        lines += [] if plain[1] is None else [("", in_sixteenths(plain[1]))]
    queries = found.queries
    errors = f"{queries.mean:.4f} mean, {queries.percentile_95:.4f} at the 95th percentile"
    lines.append((f"error of {queries.count} range queries", errors))
    if len(found.columns) > 1:
        worst = np.triu(np.abs(found.difference), 1)  # a column always depends on itself
        i, j = np.unravel_index(int(worst.argmax()), worst.shape)
        pair = f" ({found.columns[i].name} and {found.columns[j].name})" if worst[i, j] > 0 else ""
        lines.append(("largest change of dependence", f"{found.difference[i, j]:+.4f}{pair}"))
    distance = found.distance.w1
    if distance is None:
        lines.append(("W1 in the unit cube", f"left out: {found.distance.reason}"))
    else:
        beside = "(exact)" if distance.error == 0 else f"± {distance.error:.4f}"
        lines.append(("W1 in the unit cube", f"{distance.value:.4f} {beside}"))
    if found.training is not None:
        lines.append((f"accuracy, {found.training.target}", str(found.training)))
    for column in found.cut:
        shares = {"low": column.below, "high": column.above}
        kept = [f"{max(share, 0.0001):.2%} beyond {bound}" for bound, share in shares.items() if share]
        remedy = (
            "declare wider ones if they are known without the data, or null_values if they mean that there is none"
            + ("; negative values have no place on a log scale" if column.log and column.below else "")
        )
        lines.append(("BOUNDS CUT", f"{column.name}: of the real values {' and '.join(kept)}; {remedy}"))
    return lines


def column_cells(found: Evaluation) -> Cells:
    """A table of all columns, the worst first."""
    cells: Cells = [("column", "error", "answers", "W1", "missing, real", "missing, synthetic")]
    cells += [
        (
            c.name,
            f"{c.judged:.4f}" + ("" if c.finer_error is None else " †"),
            grade(c.judged),
            f"{c.distance:.4f}" + (" ‡" if c.has_w1_beyond else "") if c.has_w1 else "",
            f"{c.missing_real:.2%}",
            f"{c.missing_synthetic:.2%}",
        )
        for c in found.ranked_columns
    ]
    return cells


def pair_cells(found: Evaluation) -> Cells:
    """A table of the worst pairs."""
    head = "worst pairs" if len(found.judged_pairs) > WORST else "pairs"
    cells: Cells = [(head, "error", "answers")]
    for x, y, error in found.judged_pairs[:WORST]:
        mark = " †" if found.finer & {x, y} else ""
        cells.append((f"{x} × {y}", f"{error:.4f}{mark}", grade(error)))
    return cells


def text(found: Evaluation) -> str:
    """Plain text."""
    lines = [NOT_PRIVATE, *([found.shortage] if found.shortage else []), ""]
    lines += [*_aligned(summary(found)), "", *_aligned(column_cells(found)), ""]
    if found.ranked_pairs:
        lines += [*_aligned(pair_cells(found)), ""]
    return "\n".join([*lines, *_meaning(found)])


def _meaning(found: Evaluation) -> list[str]:
    """What the numbers are, in words."""
    return [
        *MEANING,
        *([FINER] if found.finer else []),
        *([BEYOND] if any(column.has_w1_beyond for column in found.columns) else []),
    ]


def _aligned(cells: list[tuple[str, ...]] | list[tuple[str, str]]) -> list[str]:
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells]


def rich_text(found: Evaluation) -> Group:
    """Tables for a terminal."""
    from rich.console import Group
    from rich.table import Column, Table
    from rich.text import Text

    top = Table.grid(padding=(0, 2))
    for label, finding in summary(found):
        style = "bold red" if label.isupper() else ""
        top.add_row(Text(label, style=style), Text(finding))
    warnings = [Text(line, style="bold white on red") for line in (NOT_PRIVATE, found.shortage) if line]
    parts: list[object] = [*warnings, "", top, ""]
    for header, *rows in filter(None, (column_cells(found), pair_cells(found) if found.ranked_pairs else [])):
        name = Column(header[0], overflow="fold", min_width=20)  # names that are cut look alike
        table = Table(name, *(cell.replace(", ", ",\n") for cell in header[1:]), title_justify="left")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))  # Text: a name in brackets is a name, not markup
        parts += [table, ""]
    return Group(*parts, *(Text(line, style="dim") for line in _meaning(found)))  # type: ignore[arg-type]  # all renderable
