"""Tests of the exported metrics."""
