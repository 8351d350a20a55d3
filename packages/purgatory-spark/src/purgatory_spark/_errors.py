"""Errors of input: files and tables that the pipeline can't use."""

from __future__ import annotations


class TraceFormatError(ValueError):
    """The input is not a trace of the expected format; the message names the file."""


class SchemaError(ValueError):
    """A table lacks required columns or has them in other types."""
