"""A package, so that no other distribution's top-level `tests` takes its place."""
