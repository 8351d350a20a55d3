"""A connection's login by SASL, and which requests it allows before.

As in Kafka's `SaslServerAuthenticator`: the client may ask for versions, then names a mechanism
(SaslHandshake), and exchanges tokens with the server (SaslAuthenticate), until it is logged in.
"""

from __future__ import annotations

from enum import Enum, auto

from purgatory_broker.request_context import LoginFailedError
from purgatory_broker.server.sasl import Credentials, SaslExchange, new_exchange
from purgatory_broker.wire.apis import Api
from purgatory_broker.wire.wire_error import WireError

#: Kafka's default of `sasl.server.max.receive.size`: the largest request before the login.
MAX_REQUEST_BYTES = 524_288


class _State(Enum):
    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    FAILED = auto()
    COMPLETE = auto()


class SaslLogin:
    def __init__(self, mechanisms: tuple[str, ...], credentials: Credentials) -> None:
        self.mechanisms = mechanisms
        #: The client sends tokens without a header, as after SaslHandshake of version 0.
        self.has_bare_tokens = False
        self._credentials = credentials
        self._state = _State.VERSIONS_OR_HANDSHAKE
        self._exchange: SaslExchange | None = None

    @property
    def is_complete(self) -> bool:
        return self._state is _State.COMPLETE

    @property
    def user(self) -> str:
        return self._exchange.user if self._exchange is not None and self.is_complete else ""

    def check(self, api: Api) -> bool:
        """Return whether a request is allowed now; if not, it is answered with an error."""
        if self._state is _State.TOKENS:
            return api.name == "SaslAuthenticate"
        allowed = api.name == "SaslHandshake" or (
            api.name == "ApiVersions" and self._state is _State.VERSIONS_OR_HANDSHAKE
        )
        if not allowed or self._state is _State.FAILED:
            raise WireError(f"{api.name} is not allowed before the client has logged in")
        return True

    def note_versions(self) -> None:
        self._state = _State.HANDSHAKE

    def start(self, mechanism: str, *, has_requests: bool) -> bool:
        if mechanism not in self.mechanisms:
            self._state = _State.FAILED
            return False
        self.has_bare_tokens = not has_requests
        self._exchange = new_exchange(mechanism, self._credentials)
        self._state = _State.TOKENS
        return True

    def evaluate(self, token: bytes) -> bytes:
        if self._exchange is None:
            raise LoginFailedError("no mechanism has been named")
        try:
            answer = self._exchange.evaluate(token)
        except LoginFailedError:
            self._state = _State.FAILED
            raise
        if self._exchange.is_complete:
            self.has_bare_tokens = False
            self._state = _State.COMPLETE
        return answer
