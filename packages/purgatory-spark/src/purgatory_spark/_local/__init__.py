"""Answers about traces that fit a machine, by the same functions without Spark."""
