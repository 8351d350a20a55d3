"""A request in flight: its client, and how to respond to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from purgatory_broker.metadata.topics import TopicPartition

if TYPE_CHECKING:
    from purgatory_broker._wire.messages import Header
    from request_purgatory.purgatory.operation import DelayedOperation


#: Kafka's user of clients that are not authenticated.
ANONYMOUS = "ANONYMOUS"


class Client(NamedTuple):
    client_id: str
    client_host: str
    #: The name of the listener that the client is connected to.
    listener: str = "PLAINTEXT"
    #: Who has logged in, or the subject of the client's certificate.
    user: str = ANONYMOUS
    #: The name and the version of the client's software, as it tells them.
    software: tuple[str, str] = ("unknown", "unknown")


class LoginFailedError(Exception):
    """A client has failed to log in; the message is for the client."""


class _Login(Protocol):
    @property
    def mechanisms(self) -> tuple[str, ...]: ...

    @property
    def session_lifetime_ms(self) -> int: ...

    def note_versions(self) -> None: ...

    def start(self, mechanism: str, *, has_requests: bool) -> bool:
        """Return False if unsupported; `has_requests`: tokens come in SaslAuthenticate requests."""

    def evaluate(self, token: bytes) -> bytes: ...


class Subject(Enum):
    TOPIC = "topic"
    PARTITION = "partition"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional_id"


class RequestSubjects(NamedTuple):
    #: Names of topics.
    topics: frozenset[str]
    partitions: frozenset[TopicPartition]
    #: Ids of groups.
    groups: frozenset[str]
    transactional_ids: frozenset[str]


@dataclass(slots=True)
class RequestContext:
    """A request without a response so far.

    `reply` is called once: by the handler, or later by the delayed operation that the request waits
    in. A response after the end of the connection is discarded.
    """

    header: Header
    client: Client
    send: Callable[[RequestContext, Any], None]
    close_connection: Callable[[str], None]
    #: How long the connection is not read after the response, in milliseconds.
    throttle_ms: int = 0
    answered: bool = False
    #: The delayed operation that the request waits in. The end of the connection cancels it.
    operation: DelayedOperation | None = None
    #: Whether the response may be changed before it is sent.
    changes_response: bool = False
    #: Called when the response is sent, unless the connection has ended before.
    on_response: Callable[[], None] | None = None
    #: What the request names; None unless an injected fault of responses asks for it.
    subjects: RequestSubjects | None = None
    #: The request; None unless the predicate of such a fault asks for it.
    request: Any = None
    #: Called when the client has disconnected, if a function of a test intercepts the request.
    on_cancel: Callable[[], None] | None = None
    #: Called when the handler fails, if a function of a test intercepts the request.
    on_failure: Callable[[Exception], None] | None = None
    #: The client's software, if the request tells it.
    software: tuple[str, str] | None = None
    #: The client's login; None if the client needs none, or is logged in.
    login: _Login | None = None
    #: What is called when the connection has ended, by names. It is the connection's, and that of
    #: all its requests.
    connection_ends: dict[str, Callable[[], None]] = field(default_factory=dict)
    #: Why the connection is closed after the response; None leaves it open.
    close_reason: str | None = None

    @property
    def version(self) -> int:
        return self.header.version

    def reply(self, response: Any) -> None:
        """Send the response; None for a request without one (Produce with acks=0)."""
        if self.answered:
            raise RuntimeError(
                f"{self.header.api.name} request {self.header.correlation_id} already has "
                "a response"
            )
        self.answered = True
        # The operation refers to this context; without the cycle, both are freed at once.
        self.operation = None
        self.send(self, response)

    def cancel(self) -> None:
        """Cancel the pending operation, if any: the client has disconnected."""
        on_cancel, self.on_cancel = self.on_cancel, None
        # They refer to this context; without the cycles, all are freed at once.
        operation, self.operation = self.operation, None
        if on_cancel is not None:
            on_cancel()
        if operation is not None:
            operation.cancel()
