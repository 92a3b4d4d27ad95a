"""Benchmarks: every figure beside its floor, measured in the same run. `python -m tests.bench --help`."""
