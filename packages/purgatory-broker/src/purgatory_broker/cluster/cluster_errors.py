"""The errors of a cluster's commands."""

from __future__ import annotations

from request_purgatory.errors import PurgatoryError


class ClusterError(PurgatoryError):
    """A cluster refused a command, did not start, or is not running; the message gives the reason.

    Attributes:
        code: Kafka's name of the error; None if it has none.
    """

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[ClusterError], tuple[str, str | None]]:
        return type(self), (str(self), self.code)


class ClusterTimeoutError(ClusterError, TimeoutError):
    """What `wait_for` waits for did not happen in time; the message has the state at the end."""
