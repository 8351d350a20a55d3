"""The error for bytes that the broker can't decode."""

from __future__ import annotations


class WireError(Exception):
    """Bytes that are no valid frame, or no valid request of a supported API and version.

    The broker closes the connection, as Kafka does.
    """
