"""Fuzzing of everything that parses: mutations of valid inputs, and what may come of them."""
