"""Tests of the command `purgatory-broker`."""
