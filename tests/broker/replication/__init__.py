"""Tests of replication.

What followers, leaders and the controller make of appends, fetches and faults.
"""
