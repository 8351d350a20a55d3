"""Tests of the command that need no Spark session."""
