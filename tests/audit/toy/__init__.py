"""The smallest mechanism there is: noisy counts on a fixed grid, in buckets that double."""
