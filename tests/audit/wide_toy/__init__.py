"""The toy mechanism with rows of several integers: a cell's number in parts."""
