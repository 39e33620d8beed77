"""The arithmetic of proofs/fixed-depth.md: budgets add up to ε, and the error is the rate times a constant."""

from __future__ import annotations

import math

import pytest

KAPPA, A = 5 / 8, 1 / 16


def budget(above: int, epsilon: float) -> float:
    """Of the depth that is so far above the deepest of its level."""
    return epsilon * (2**A - 1) * 2 ** (-A * above)


def error(q: int, d: int, epsilon: float, kappa: float = KAPPA) -> float:
    """What steps 1 to 3 add up, level by level and depth by depth, unnormalised; but for constant factors."""
    reach = [math.floor(math.log2(epsilon * 2.0**level)) for level in range(q + 1)]
    bottom = reach[-1]
    total = 2.0 ** (-(bottom // d)) * 2.0 ** (q + 1)
    for j in range(bottom):
        levels = [r for r in reach if r > j]
        variance = sum(
            2.0 ** math.ceil(kappa * (r - j)) * 2 * (2 / budget(r - j, epsilon)) ** 2 for r in levels
        )  # of integer Laplace noise of scale s: below 2s²
        uncovered = 2.0 ** (q + 1 - len(levels)) + 2.0 ** (q - math.ceil(kappa * (bottom - j)))
        total += 2.0 ** (-(j // d)) * (2.0**j * math.sqrt(variance) + uncovered)
    return total


@pytest.mark.parametrize("depth", [1, 2, 10, 100])
def test_the_budgets_of_a_level_add_up_to_less_than_epsilon(depth: int) -> None:
    spent = math.fsum(budget(above, 0.5) for above in range(1, depth + 1))
    assert spent < 0.5
    assert depth < 100 or spent > 0.49


@pytest.mark.parametrize("d", [2, 3, 5, 10])
@pytest.mark.parametrize("epsilon", [1.0, 0.1])
def test_the_error_is_the_rate_up_to_a_constant(d: int, epsilon: float) -> None:
    """From 2^80 to 2^200 points the ratio does not grow by more than a hundredth; a logarithm would double it.

    The exponents are equal modulo every d here: within d halvings the ratio goes up and down.
    """
    ratio = {q: error(q, d, epsilon) / (2.0**q * (epsilon * 2.0**q) ** (-1 / d)) for q in (80, 200)}
    assert ratio[200] <= 1.01 * ratio[80]


@pytest.mark.parametrize("kappa", [0.5, 0.875])
def test_in_the_plane_both_conditions_are_needed(kappa: float) -> None:
    """At either end of the range every depth counts alike, and the logarithm is back: 1 or more for each depth."""
    ratio = [error(q, 2, 1.0, kappa) / 2.0 ** (q / 2) for q in (100, 200)]
    assert ratio[1] - ratio[0] >= 100 * (1 - 1e-6)
