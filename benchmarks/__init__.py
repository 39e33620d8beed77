"""What the documentation says about speed and accuracy, measured: ``python -m benchmarks.NAME``."""
