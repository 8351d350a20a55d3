"""Request traces: their schema, folders, synthetic workloads and importers."""
