"""The handlers: what a node does for each API."""

from request_purgatory.broker.api.table import handle

__all__ = ["handle"]
