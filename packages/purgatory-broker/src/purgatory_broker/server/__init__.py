"""Connections, the requests in flight on them, and the limits on both."""
