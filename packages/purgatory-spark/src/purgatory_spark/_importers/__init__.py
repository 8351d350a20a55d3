"""Importers: each turns one format of request traces into requests and events."""
