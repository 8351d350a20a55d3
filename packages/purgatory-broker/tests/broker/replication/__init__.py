"""Tests of replication: appends, fetches, elections and faults."""
