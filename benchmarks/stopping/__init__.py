"""How long servers take to stop while a request waits: `python -m benchmarks.stopping`."""
