"""Tests of kafka-python."""
