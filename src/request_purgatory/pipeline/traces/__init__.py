"""Request traces: schema, folders, workloads, importers."""
