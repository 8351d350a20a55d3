"""Tests of the micro-benchmarks: that they measure and report, not how fast anything is."""
