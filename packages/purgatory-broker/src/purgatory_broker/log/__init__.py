"""The log of a partition: record batches in segments, in memory or in files."""
