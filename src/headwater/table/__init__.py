"""Records in, points out: what the columns are and how they lie in the unit cube."""
