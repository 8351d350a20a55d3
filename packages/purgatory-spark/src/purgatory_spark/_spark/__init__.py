"""Spark sessions, Python workers, and the memory and tools that they need."""
