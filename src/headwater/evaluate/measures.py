"""How alike a real and a synthetic table are: by column, by pair of columns, in answers to questions, and in all.

NOT PRIVATE. Everything here is computed from the real data without noise. It is for public or test data, or for the
eyes of those who may see the data anyway.

``columns``
    Total variation of each column on 16 bins or on its categories, and W₁ on the column's own axis, scaled to 0..1.
    Real values beyond the declared bounds are compared as they are, not clipped.
``pairs``
    Total variation of the tables of two columns, on the same bins.
``dependence``
    Mutual information of each pair of columns over the geometric mean of their entropies, on the same bins.
    0 is independent, 1 is one to one.
``queries``
    What share of the rows lies in a box: boxes over one to three columns, drawn from a public seed.
``w1``
    The distance of the two tables in the schema's unit cube, as in `headwater.evaluate.w1`: for one to three columns,
    and only where its error is small beside it.
``training``
    Accuracy of a classifier that was trained on the synthetic table, beside one trained on the real one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater.evaluate.axes import column_axes
from headwater.evaluate.distances import column_distance, table_distance
from headwater.evaluate.encoded import Encoded
from headwater.evaluate.evaluation import Evaluation
from headwater.evaluate.inputs import tables_of
from headwater.evaluate.marginals import binned, pair_measures
from headwater.evaluate.queries import QueryErrors
from headwater.evaluate.training import train
from headwater.public.protocol import AnySchema


def evaluate(
    real: object,
    synthetic: object,
    schema: AnySchema | None = None,
    *,
    target: str | None = None,
    seed: int = 0,
    reading: dict[str, Any] | None = None,
) -> Evaluation:
    """Compare a real and a synthetic table. NOT PRIVATE.

    Parameters
    ----------
    real
        A table of any kind, an iterable of tables, or the path or paths of files; an array of floats of shape
        ``(n, d)`` holds points, as ``schema.encode`` gives them.
    synthetic
        The same, or a `Release`, or the folder of one; that is compared with the records that it is about, and
        the evaluation says so if ``real`` has fewer. It may differ in length.
    schema
        Of both tables. A release brings its own. Without either, bounds and categories are taken from both tables.
    target
        A column that a classifier predicts from the others, trained on each of the tables; or ``"NAME > NUMBER"``.
        Needs ``headwater[train]``.
    seed
        Of the boxes that are asked about, and of the classifier. Public; the same seed asks the same questions.

    reading
        How files of real records are read, such as ``{"ignore_extra": True}``: the keywords of `headwater.read`.

    Returns
    -------
    Evaluation
        Print it, or take ``to_dict()``.

    Examples
    --------
    >>> import headwater as hw
    >>> points = np.random.default_rng(0).random((500, 2))
    >>> found = hw.evaluate(points, points, hw.unit_cube(2))
    >>> found.one_way, found.two_way, found.queries.mean
    (0.0, 0.0, 0.0)
    >>> print(str(found).splitlines()[0])
    NOT PRIVATE: computed from the real data without noise. Do not publish.
    """
    return compare(*tables_of(real, synthetic, schema, reading=reading), target=target, seed=seed)


def compare(
    real: Encoded,
    synthetic: Encoded,
    schema: AnySchema,
    shortage: str | None = None,
    *,
    target: str | None = None,
    seed: int = 0,
) -> Evaluation:
    """`evaluate` for tables that are encoded already; ``shortage`` says if real records are missing."""
    for rows, name in ((real, "real"), (synthetic, "synthetic")):
        _check(rows, name)
    columns = column_axes(schema)
    x, y = real.sides(columns), synthetic.sides(columns)
    pairs = pair_measures(*(binned(rows, columns) for rows in (real, synthetic)))
    return Evaluation(
        rows=(len(real), len(synthetic)),
        columns=tuple(
            column_distance(column, a, b, float(error))
            for column, a, b, error in zip(columns, x, y, np.diag(pairs.errors), strict=True)
        ),
        pairs=pairs.errors,
        dependence=pairs.dependence,
        queries=QueryErrors.of(x, y, columns, seed),
        distance=table_distance(real.points, synthetic.points, moved=real.moved),
        training=train(target, x, y, columns, seed) if target is not None else None,
        shortage=shortage,
    )


def _check(rows: Encoded, name: str) -> None:
    points = rows.points
    if not len(points):
        raise ValueError(f"{name} has no rows: there is nothing to compare")
    if not ((points >= 0) & (points <= 1)).all():
        raise ValueError(f"{name} has points outside the unit cube: encode the table with its schema first")
