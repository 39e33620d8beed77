"""Make pages and pictures anew from the numbers that are kept: ``python -m benchmarks [NAME …]``."""

from __future__ import annotations

import importlib
import sys

from benchmarks.pages import kept, publish

MODULES = {
    "accuracy": "accuracy_page",
    "cost": "cost",
    "fuzz": "fuzz",
    "long-run": "long_run",
    "noise": "noise",
    "people": "people_page",
    "serve": "serve",
    "spark": "spark_page",
    "speed": "speed",
    "table-speed": "table_speed",
    "tables": "tables.page",
    "theorem": "theorem",
}
"""The page of each benchmark, and the module whose `page` (and `draw`, if it has one) makes it."""

if __name__ == "__main__":
    for name in sys.argv[1:] or MODULES:
        module = importlib.import_module(f"benchmarks.{MODULES[name]}")
        publish(name, kept(name), module.page, getattr(module, "draw", None))
