"""What a follower needs of the leader that it fetches from."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from purgatory_broker.replication.delayed_fetch import FetchedPartition, FetchParams, FetchTarget
from purgatory_broker.wire.error_code import ErrorCode


class LogBounds(NamedTuple):
    """The bounds of a leader's log, or the error with which it refuses to give them."""

    error: ErrorCode
    log_start_offset: int = -1
    end_offset: int = -1


class PendingRequest(Protocol):
    """A request to a leader without a response so far."""

    def cancel(self) -> None:
        """Ignore a response that arrives from now on."""


class LeaderEndPoint(Protocol):
    """The requests of a follower to one leader, as in Kafka's interface of this name.

    Each is one round trip. `respond` is called once, on the event loop and after the method has
    returned; never if the request is cancelled, or if a message is lost.
    """

    @property
    def leader(self) -> int: ...

    def fetch(
        self,
        params: FetchParams,
        targets: list[FetchTarget],
        respond: Callable[[list[FetchedPartition]], None],
    ) -> PendingRequest:
        """Read partitions when they have `min_bytes` together, or after `max_wait_ms`."""

    def log_bounds(
        self, targets: list[FetchTarget], respond: Callable[[list[LogBounds]], None]
    ) -> PendingRequest:
        """Ask where the leader's logs begin and end."""
