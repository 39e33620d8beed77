"""Marginals, the public half: plans, questions, estimates, models."""
