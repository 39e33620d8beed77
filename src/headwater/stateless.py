"""What needs no run: one release of a data set that is complete."""

from __future__ import annotations

from headwater.arguments import checked_schema, options_of, table_kind
from headwater.mechanisms import registry
from headwater.mechanisms.protocol import AnySchema, Facts
from headwater.privacy import check_epsilon, warn_of_epsilon
from headwater.randomness import new_keys, release_seed
from headwater.release.release import Release


def pmm(
    table: object, schema: AnySchema, *, epsilon: float, consistency: str | None = None, seed: int | None = None
) -> Release:
    """One ε-private release of a data set that is already complete.

    Parameters
    ----------
    table
        All records: any kind of table that the schema reads.
    schema
        What a record is.
    epsilon
        The privacy budget.
    consistency
        How noisy counts are made to add up: ``"halving"`` or ``"proportional"``.
    seed
        For tests only: makes the release repeatable, and so protects nobody.

    Examples
    --------
    >>> from headwater import unit_cube
    >>> pmm([[0.1, 0.2], [0.3, 0.9]], unit_cube(2), epsilon=2.0).points().shape
    (2, 2)
    """
    warn_of_epsilon(check_epsilon(epsilon), 2)
    noise, public = new_keys(seed)
    points, kind = checked_schema(schema).encode(table), registry.mechanism("pmm")
    mechanism = kind(schema, check_epsilon(epsilon), noise, **options_of(kind, {"consistency": consistency}))
    mechanism.update(mechanism.encode(points))
    seed = release_seed(public, mechanism.t, 0)
    facts = Facts(mechanism.t, mechanism.ledger().guarantee(float(epsilon)), schema, "pmm")
    model = registry.model("pmm").fit(mechanism.measured(0, seed), schema, seed)
    return Release(facts, 0, model, seed, table_kind(schema, table))
