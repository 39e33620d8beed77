"""Tables in Markdown, for pages that are made from numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    r"""A Markdown table that ends with a line break.

    A vertical bar in a cell stays one. ``align`` has a letter for each column, ``l`` or ``r`` for left or right; the
    last one is for all columns after it too.

    Examples
    --------
    >>> print(table(["mechanism", "error"], [["paper", "0.02"], ["a|b", "0.01"]], "lr"), end="")
    | mechanism | error |
    |---|---:|
    | paper | 0.02 |
    | a\|b | 0.01 |
    """
    align += (align or "l")[-1] * len(head)
    rule = ["---:" if side == "r" else "---" for side in align[: len(head)]]
    lines = ([cell.replace("|", "\\|") for cell in row] for row in (head, *rows))
    first, *others = (f"| {' | '.join(line)} |\n" for line in lines)
    return "".join([first, f"|{'|'.join(rule)}|\n", *others])
