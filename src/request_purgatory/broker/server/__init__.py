"""Connections, requests in flight, and what limits them."""
