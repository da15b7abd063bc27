"""Whole jobs timed against Apache Hudi in one run, on the same machine. `python -m benchmarks --help`."""
