"""The version, where everybody can read it without importing anything else."""

from __future__ import annotations

__version__ = "0.1.0"
