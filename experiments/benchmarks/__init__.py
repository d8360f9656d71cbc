"""The speed of this project itself: `python -m experiments.benchmarks`."""
