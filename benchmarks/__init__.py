"""What the documentation says about speed and accuracy, measured by ``python -m benchmarks.NAME``."""
