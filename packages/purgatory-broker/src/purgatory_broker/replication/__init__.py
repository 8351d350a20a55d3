"""Replicas, the fetchers that replicate them, and the delayed operations that wait for them."""
