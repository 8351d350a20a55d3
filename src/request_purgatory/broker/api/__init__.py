"""The handlers of the APIs' requests."""

from request_purgatory.broker.api.registry import handle

__all__ = ["handle"]
