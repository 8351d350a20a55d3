"""Tests of the timer."""
