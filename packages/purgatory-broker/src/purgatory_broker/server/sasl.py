"""The server's side of SASL: PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677) and OAUTHBEARER."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker.metadata.scram import ScramCredential, ScramMechanism
from purgatory_broker.metadata.scram_credentials import ScramCredentials
from purgatory_broker.request_context import LoginFailedError
from purgatory_broker.server.oauth_bearer import (
    ACKNOWLEDGED,
    OAUTHBEARER,
    InvalidMessageError,
    InvalidTokenError,
    first_message,
    validated_token,
)

PLAIN = "PLAIN"
_SERVER_NONCE_BYTES = 24

# The formats of Kafka's `ScramMessages`. There is no channel binding; as in Kafka, what the last
# message of a client says of one is not checked.
_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<identity>{_SASL_NAME}))?,"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<user>{_SASL_NAME}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
)
_BASE64 = r"[a-zA-Z0-9/+]*={0,2}"
_CLIENT_FINAL = re.compile(
    rf"(?P<unproved>c={_BASE64},r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
    rf",p=(?P<proof>{_BASE64})"
)


class _SaslExchange(ABC):
    is_complete = False
    user = ""
    #: When what the client has logged in with expires, as a time of day; None if it does not.
    expires_ms: int | None = None

    @abstractmethod
    def evaluate(self, token: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Credentials:
    #: By user, for PLAIN.
    passwords: Mapping[str, str] = field(repr=False)
    scram: ScramCredentials


def _same_identity(identity: str | None, user: str) -> None:
    """Check that the client wants to act as the user that it logs in as."""
    if identity and identity != user:
        raise LoginFailedError(
            "Authentication failed: Client requested an authorization id that is different from "
            "username"
        )


class _PlainExchange(_SaslExchange):
    """PLAIN: the client sends its name and its password. Messages of errors are Kafka's."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def evaluate(self, token: bytes) -> bytes:
        parts = token.decode(errors="replace").split("\0", 3)
        if len(parts) != 3:
            raise LoginFailedError(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            )
        identity, user, password = parts
        if not user:
            raise LoginFailedError("Authentication failed: username not specified")
        if not password:
            raise LoginFailedError("Authentication failed: password not specified")
        expected = self._passwords.get(user, "")
        if not expected or not hmac.compare_digest(expected.encode(), password.encode()):
            raise LoginFailedError("Authentication failed: Invalid username or password")
        _same_identity(identity, user)
        self.user = user
        self.is_complete = True
        return b""


class _ScramExchange(_SaslExchange):
    """SCRAM: the client proves that it knows its password, and the server that it knows the client.

    The client sends its name and a nonce. The server answers with a nonce of its own, the salt and
    the iterations. The client sends its proof, the server its signature.
    """

    def __init__(self, mechanism: ScramMechanism, credentials: ScramCredentials) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._credential: ScramCredential | None = None
        #: The messages that client and server sign, from the first two on.
        self._signed = b""
        self._nonce = ""

    def evaluate(self, token: bytes) -> bytes:
        text = token.decode(errors="replace")
        credential = self._credential
        return self._first(text) if credential is None else self._final(text, credential)

    def _first(self, text: str) -> bytes:
        message = _CLIENT_FIRST.fullmatch(text)
        if message is None:
            raise self._failure()
        user = message["user"].replace("=2C", ",").replace("=3D", "=")
        credential = self._credentials.find(user, self._mechanism)
        if credential is None:
            raise self._failure()
        _same_identity(message["identity"], user)
        self._nonce = message["nonce"] + secrets.token_urlsafe(_SERVER_NONCE_BYTES)
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self.user = user
        self._credential = credential
        self._signed = f"{message['bare']},{answer}".encode()
        return answer.encode()

    def _final(self, text: str, credential: ScramCredential) -> bytes:
        message = _CLIENT_FINAL.fullmatch(text)
        if message is None or message["nonce"] != self._nonce:
            raise self._failure()
        try:
            proof = base64.b64decode(message["proof"])
        except binascii.Error:
            raise self._failure() from None
        signed = self._signed + b"," + message["unproved"].encode()
        signature = self._mechanism.hmac(credential.stored_key, signed)
        if len(proof) != len(signature):
            # In Kafka an error of the handler, which closes the connection.
            raise WireError(f"a proof of {len(proof)} bytes, not {len(signature)}")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(self._mechanism.hash(client_key), credential.stored_key):
            raise self._failure()
        self.is_complete = True
        return b"v=" + base64.b64encode(self._mechanism.hmac(credential.server_key, signed))

    def _failure(self) -> LoginFailedError:
        """Return the error of any reason: a client can't learn which names exist."""
        return LoginFailedError(
            "Authentication failed during authentication due to invalid credentials with SASL "
            f"mechanism {self._mechanism.name.replace('_', '-')}"
        )


class _OAuthBearerExchange(_SaslExchange):
    """OAUTHBEARER: the client sends a token; an invalid one is answered with a reason."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._refusal = ""

    def evaluate(self, token: bytes) -> bytes:
        if token == ACKNOWLEDGED and self._refusal:
            raise LoginFailedError(self._refusal)
        self._refusal = ""
        try:
            message = first_message(token)
            valid = validated_token(message.token, self._wall_ms())
        except InvalidMessageError:
            raise LoginFailedError(
                "Authentication failed during authentication due to invalid credentials with SASL "
                f"mechanism {OAUTHBEARER}"
            ) from None
        except InvalidTokenError:
            self._refusal = '{"status":"invalid_token"}'
            return self._refusal.encode()
        if message.identity not in ("", valid.principal):
            raise LoginFailedError(
                f"Authentication failed: Client requested an authorization id ({message.identity}) "
                f"that is different from the token's principal name ({valid.principal})"
            )
        self.user = valid.principal
        self.expires_ms = valid.expires_ms
        self.is_complete = True
        return b""


#: Kafka's default of `sasl.server.max.receive.size`: the largest request before the login.
MAX_REQUEST_BYTES = 524_288


class _State(Enum):
    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    FAILED = auto()
    COMPLETE = auto()


class SaslLogin:
    """The login of a connection, or the one that renews it before its session ends (KIP-368)."""

    def __init__(
        self,
        mechanisms: tuple[str, ...],
        credentials: Credentials,
        *,
        wall_ms: Callable[[], int],
        max_session_ms: int = 0,
        renewed: SaslLogin | None = None,
    ) -> None:
        """Begin a login. A `max_session_ms` of 0 is no limit."""
        self.mechanisms = mechanisms
        self.mechanism = ""
        #: How long the client may stay without another login; 0 if for ever.
        self.session_lifetime_ms = 0
        #: The time of day at which the session ends; None if it does not.
        self.session_ends_ms: int | None = None
        self._wall_ms = wall_ms
        self._max_session_ms = max_session_ms
        self._renewed = renewed
        #: The client sends tokens without a header, as after SaslHandshake of version 0.
        self.has_bare_tokens = False
        self._credentials = credentials
        self._state = _State.VERSIONS_OR_HANDSHAKE if renewed is None else _State.HANDSHAKE
        self._exchange: _SaslExchange | None = None

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
        if self._renewed is not None and mechanism != self._renewed.mechanism:
            # Kafka tells the client by the end of the connection alone.
            self._state = _State.FAILED
            return True
        self.mechanism = mechanism
        self.has_bare_tokens = not has_requests
        if mechanism == PLAIN:
            self._exchange = _PlainExchange(self._credentials.passwords)
        elif mechanism == OAUTHBEARER:
            self._exchange = _OAuthBearerExchange(self._wall_ms)
        else:
            kind = ScramMechanism[mechanism.replace("-", "_")]
            self._exchange = _ScramExchange(kind, self._credentials.scram)
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
            self._complete(self._exchange)
        return answer

    def _complete(self, exchange: _SaslExchange) -> None:
        if self._renewed is not None and exchange.user != self._renewed.user:
            self._state = _State.FAILED
            raise LoginFailedError(
                "Cannot change principals during re-authentication from "
                f"User.{self._renewed.user}: User.{exchange.user}"
            )
        self._state = _State.COMPLETE
        self._renewed = None
        now_ms = self._wall_ms()
        limits = [self._max_session_ms] if self._max_session_ms else []
        if exchange.expires_ms is not None:
            limits.append(exchange.expires_ms - now_ms)
        if limits:
            self.session_lifetime_ms = max(min(limits), 0)
            self.session_ends_ms = now_ms + self.session_lifetime_ms
