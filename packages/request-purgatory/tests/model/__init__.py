"""Naive models: slow, obviously right, and compared with the real thing step by step."""
