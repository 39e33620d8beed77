"""Mechanisms, one folder each, found by name (`headwater.mechanisms.registry`).

In each folder ``measure.py`` is the only module that reads records; ``plan.py`` says in advance what will be measured
and with how much noise; ``model.py`` and everything else compute from published numbers alone.
"""
