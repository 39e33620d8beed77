"""Buckets of time at a few timescales; in each, noisy counts over a tree that published numbers have chosen."""
