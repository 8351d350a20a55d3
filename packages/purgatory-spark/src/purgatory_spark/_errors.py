"""Errors of input: files, tables and values that the pipeline can't use."""

from __future__ import annotations

from collections.abc import Sequence

from request_purgatory.errors import InvalidArgumentError


class TraceFormatError(ValueError):
    """The input is not a trace of the expected format; the message names the file."""


class SchemaError(ValueError):
    """A table lacks required columns or has them in other types."""


def require_one_of(known: Sequence[str], **values: str) -> None:
    for name, value in values.items():
        if value not in known:
            raise InvalidArgumentError(name, f"one of {', '.join(known)}", value)


def require_at_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if value < least:
            raise InvalidArgumentError(name, f"at least {least}", value)
