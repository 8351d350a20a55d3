"""A request on its way: who sent it, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from request_purgatory.broker.wire.messages import Header
    from request_purgatory.purgatory.operation import DelayedOperation


class Client(NamedTuple):
    """Who sent a request."""

    client_id: str
    client_host: str


@dataclass(slots=True)
class RequestContext:
    """A request that was read and has not been answered.

    `reply` is called once, by the handler or later by whatever the request waits for; None is the
    answer of requests that have none (Produce with acks=0). A reply after the connection's end goes
    nowhere.
    """

    header: Header
    client: Client
    arrived_ms: int
    send: Callable[[RequestContext, Any], None]
    end_connection: Callable[[str], None]
    #: Milliseconds for which the connection is to be left unread once this is answered.
    throttle_ms: int = 0
    answered: bool = False
    #: What holds the request, where its connection's end is its end too.
    operation: DelayedOperation | None = field(default=None)

    @property
    def version(self) -> int:
        """The request's version."""
        return self.header.version

    def reply(self, response: Any) -> None:
        """Answer it.

        Raises:
            RuntimeError: it has been answered.
        """
        if self.answered:
            raise RuntimeError(
                f"{self.header.api.name} {self.header.correlation_id} has been answered"
            )
        self.answered = True
        self.send(self, response)

    def abandon(self) -> None:
        """Nobody is there to be answered any more."""
        if self.operation is not None:
            self.operation.cancel()
