"""SASL/OAUTHBEARER (RFC 7628) with unsecured tokens, as Kafka's default has it.

An unsecured token (RFC 7519, section 6) has no signature: whoever makes one is believed. It is for
tests alone.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from purgatory_broker._wire.wire_error import WireError

OAUTHBEARER = "OAUTHBEARER"
#: The client's answer to the server's error.
ACKNOWLEDGED = b"\x01"

# The formats of Kafka's `OAuthBearerClientInitialResponse`.
_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIRS = r"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*"
_FIRST = re.compile(rf"n,(?:a=(?P<identity>{_SASL_NAME}))?,\x01(?P<pairs>{_PAIRS})\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_PRINCIPAL_CLAIM, _SCOPE_CLAIM = "sub", "scope"
_LONG_MAX = 2**63 - 1


class InvalidMessageError(Exception):
    """A client's first message has not the form of the mechanism."""


class InvalidTokenError(Exception):
    """A token is not valid."""


class FirstMessage(NamedTuple):
    #: Whom the client wants to act as; empty if it names nobody.
    identity: str
    token: str


@dataclass(frozen=True, slots=True)
class UnsecuredToken:
    principal: str
    #: In milliseconds since 1970.
    expires_ms: int


def first_message(message: bytes) -> FirstMessage:
    text = _FIRST.fullmatch(message.decode(errors="replace"))
    if text is None:
        raise InvalidMessageError("the form of the first message is invalid")
    pairs = dict(pair.split("=", 1) for pair in text["pairs"].split("\x01") if pair)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None:
        raise InvalidMessageError("the first message has no token")
    if auth["scheme"].lower() != "bearer":
        # In Kafka an error of the handler, which closes the connection.
        raise WireError(f"the scheme of a token is {auth['scheme']!r}, not Bearer")
    return FirstMessage(text["identity"] or "", auth["token"])


def validated_token(token: str, now_ms: int) -> UnsecuredToken:
    """Return a token that is valid now: its algorithm, its claims and its times."""
    parts = token.split(".")
    if len(parts) != 3 or ".." in token:
        raise InvalidTokenError("the token has not the form HEADER.CLAIMS.")
    header, claims = map(_struct, parts[:2])
    if "alg" not in header:
        # As above.
        raise WireError("the header of a token names no algorithm")
    if header["alg"] != "none" or parts[2]:
        raise InvalidTokenError("the token is signed, or has another algorithm than none")
    scope = claims.get(_SCOPE_CLAIM, "")
    if not isinstance(scope, (str, list)):
        raise InvalidTokenError(f"the scope is {scope!r}")
    principal = claims.get(_PRINCIPAL_CLAIM)
    if not isinstance(principal, str) or not principal.strip():
        raise InvalidTokenError(f"the principal is {principal!r}")
    expires, issued = _seconds(claims, "exp"), _seconds(claims, "iat")
    if expires is None or now_ms >= 1_000 * expires:
        raise InvalidTokenError(f"the token expires at {expires} s, and it is {now_ms} ms")
    if issued is not None and (1_000 * issued > now_ms or issued >= expires):
        raise InvalidTokenError(f"the token is issued at {issued} s, and it is {now_ms} ms")
    return UnsecuredToken(principal, int(min(1_000 * expires, _LONG_MAX)))


def _struct(part: str) -> dict[str, Any]:
    try:
        raw = base64.b64decode(part + "=" * (-len(part) % 4), validate=True)
        value = json.loads(raw, parse_constant=_no_constant) if raw else {}
    except (binascii.Error, ValueError, RecursionError) as error:
        raise InvalidTokenError(f"a part of the token is malformed: {error}") from None
    if not isinstance(value, dict):
        return {}
    return {name: _value(each) for name, each in value.items()}


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _value(value: Any) -> Any:
    """Return a claim; whatever is no number, text or list is a text."""
    if isinstance(value, (str, list)):
        return value
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number else json.dumps(value)


def _seconds(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if isinstance(value, (str, list)):
        raise InvalidTokenError(f"the claim {name} is {value!r}")
    try:
        return None if value is None else float(value)
    except OverflowError:
        return float("inf")
