"""How alike a real and a synthetic table are: in all, by column, by pair of columns, and in answers to questions.

NOT PRIVATE. Everything here is computed from the real data without noise. It is for public or test data, or for the
eyes of those who may see the data anyway.

Four views, from the strictest to the most practical:

``w1``
    The distance of the two tables in the schema's unit cube, as in `headwater.evaluate.w1`: no error for one column or
    small tables, a grid with a stated error for two and three columns. From four columns on it is an estimate from a
    subsample, which is too large on average; ``floor`` is what the real data, split in two at random, give by the same
    method, so only what exceeds it tells the tables apart.
``columns``
    W₁ on the column's own axis, scaled to 0..1, for kinds with an order; total variation for categories and booleans.
    Both among the values that are there. How many are missing is said apart.
``dependence``
    Mutual information of each pair of columns over the geometric mean of their entropies, on a public grid of bins.
    0 is independent, 1 is one to one.
``queries``
    What share of the rows lies in a box: boxes over one to three columns, drawn from a public seed.
"""

from __future__ import annotations

import numpy as np

from headwater.evaluate.axes import Floats, SchemaLike, column_axes
from headwater.evaluate.dependence import dependence
from headwater.evaluate.distances import column_distance, table_distance
from headwater.evaluate.evaluation import Evaluation
from headwater.evaluate.queries import QueryErrors


def evaluate(real: object, synthetic: object, schema: SchemaLike, *, seed: int = 0) -> Evaluation:
    """Compare a real and a synthetic table. NOT PRIVATE.

    Parameters
    ----------
    real, synthetic
        Points of the cube, as ``schema.encode`` gives them: arrays of floats of shape ``(n, d)``. Any other kind of
        table is encoded first. They may differ in length.
    schema
        Of both tables.
    seed
        Of the boxes that are asked about, and of subsamples. Public; the same seed asks the same questions.

    Examples
    --------
    >>> import headwater as hw
    >>> points = np.random.default_rng(0).random((500, 2))
    >>> found = evaluate(points, points, hw.unit_cube(2))
    >>> float(found.w1), found.queries.mean
    (0.0, 0.0)
    >>> print(str(found).splitlines()[0])
    NOT PRIVATE: computed from the real data without noise. Do not publish.
    """
    x, y = (_encoded(table, schema, name) for table, name in ((real, "real"), (synthetic, "synthetic")))
    columns = column_axes(schema)
    distance, floor = table_distance(x, y, np.random.default_rng([seed, 1]))
    a, b = ([column.split(points[:, i]) for i, column in enumerate(columns)] for points in (x, y))
    return Evaluation(
        rows=(len(x), len(y)),
        w1=distance,
        floor=floor,
        columns=tuple(column_distance(column, *pair) for column, *pair in zip(columns, a, b, strict=True)),
        dependence=(dependence(x, columns), dependence(y, columns)),
        queries=QueryErrors.of(a, b, columns, seed),
    )


def _encoded(table: object, schema: SchemaLike, name: str) -> Floats:
    points = table if isinstance(table, np.ndarray) and table.dtype.kind == "f" else schema.encode(table)
    if points.ndim != 2 or points.shape[1] != schema.dimension:
        raise ValueError(f"{name} must be points of shape (n, {schema.dimension}), not {points.shape}")
    if not len(points):
        raise ValueError(f"{name} has no rows: there is nothing to compare")
    if not ((points >= 0) & (points <= 1)).all():
        raise ValueError(f"{name} has points outside the unit cube: encode the table with its schema first")
    return points.astype(np.float64, copy=False)
