"""The line that registers a mechanism."""

from __future__ import annotations

import pytest

from headwater.audit import traits
from headwater.public import protocol as registry

TOYS = ("toy", "wide toy")


def register_toys(patch: pytest.MonkeyPatch) -> None:
    """Register them until the patch is undone: other tests count on the mechanisms that there are."""
    patch.setattr(registry, "MODULES", dict(registry.MODULES))
    registry.register("toy", "tests.audit.toy")
    counts_each_record_once = traits.Traits(partitions=True)
    patch.setattr(traits, "TRAITS", traits.TRAITS | dict.fromkeys(TOYS, counts_each_record_once))
    registry.register("wide toy", "tests.audit.wide_toy")
