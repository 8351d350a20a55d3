"""Micro-benchmarks: one module per question, all run by `python -m benchmarks`."""
