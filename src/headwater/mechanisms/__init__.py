"""Mechanisms, one folder each."""
