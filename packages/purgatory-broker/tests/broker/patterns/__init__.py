"""Tests of regular expressions."""
