"""Simulated clusters: traces made and replayed inside Spark tasks, without storing them."""
