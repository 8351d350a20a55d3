"""Simulated clusters, whose traces are made and replayed inside Spark tasks."""
