"""Nodes composed into a cluster, in this process or in another."""
