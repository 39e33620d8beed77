"""Sizes of tests that take too long for every change: `make test-nightly` runs them in full."""

from __future__ import annotations

import os

NIGHTLY = os.environ.get("HEADWATER_NIGHTLY") == "1"
