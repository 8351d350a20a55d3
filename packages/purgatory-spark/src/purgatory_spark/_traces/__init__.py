"""Request traces: their folders, synthetic workloads, and reading traces of any known format."""
