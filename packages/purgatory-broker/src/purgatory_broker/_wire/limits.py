"""Limits on the texts of a response."""

from __future__ import annotations

#: The longest error message in a response; a message may repeat what a client sent.
MAX_MESSAGE_CHARACTERS = 1_000


def truncate_message(message: str | None) -> str | None:
    """Return `message`, cut to MAX_MESSAGE_CHARACTERS so that every version can encode it."""
    if message is None or len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    return f"{message[:MAX_MESSAGE_CHARACTERS]}..."
