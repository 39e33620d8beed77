"""The Private Measure Mechanism: one release of a data set that is already complete."""
