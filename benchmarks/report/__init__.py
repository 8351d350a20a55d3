"""The page of a benchmark's results: `python -m benchmarks.report FOLDER PAGE`."""
