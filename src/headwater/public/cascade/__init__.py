"""Cascade, the public half: plans, trees, estimates, models."""
