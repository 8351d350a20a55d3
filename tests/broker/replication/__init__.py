"""Tests of replication: what followers, leaders and the controller make of appends, fetches and faults."""
