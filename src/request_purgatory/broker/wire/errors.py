"""Bytes that the broker can't make anything of.

Kafka ends the connection for them, and so does this broker.
"""

from __future__ import annotations


class WireError(Exception):
    """Bytes that are no frame, or no request of an API and a version that is served."""
