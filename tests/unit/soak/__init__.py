"""Tests of the soak campaign."""
