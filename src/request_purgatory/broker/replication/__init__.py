"""Replicas, their fetchers, and the requests that wait for them."""
