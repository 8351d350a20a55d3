"""Cluster metadata: topics, their configurations, and the leaders of their partitions."""
