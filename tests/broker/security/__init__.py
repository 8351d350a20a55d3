"""Listeners, TLS and logins."""
