"""The error of a change that the controller refuses."""

from __future__ import annotations

from purgatory_broker.wire.error_code import ErrorCode


class ControllerError(Exception):
    """The controller refuses a change."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
