"""How good are releases of wide tables? Run with ``python -m benchmarks.tables``."""
