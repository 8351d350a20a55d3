"""Formats of request traces, each turned into requests and events."""
