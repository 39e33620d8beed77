"""Files of records: read in batches, in order, and from where an earlier run stopped."""
