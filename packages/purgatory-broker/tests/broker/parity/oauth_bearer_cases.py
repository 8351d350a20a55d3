"""Logins by OAUTHBEARER with unsecured tokens, and logins that are renewed."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import ConnectionClosedError, RawClient
from tests.broker.parity.secured import PASSWORDS, secured_case

_HEADER = {"alg": "none"}
_HOUR = 3_600


def _part(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _token(header: Any = _HEADER, **claims: Any) -> str:
    """Return a token of alice for an hour, with other claims, or without those that are None."""
    now = time.time()
    made = {"sub": "alice", "iat": now - 60, "exp": now + _HOUR} | claims
    kept = {name: value for name, value in made.items() if value is not None}
    return f"{_part(header)}.{_part(kept)}."


def _first(token: str, *, identity: str = "", pairs: str = "") -> bytes:
    return f"n,{identity},\x01auth=Bearer {token}\x01{pairs}\x01".encode()


def _shake(client: RawClient, mechanism: str = "OAUTHBEARER", version: int = 1) -> int:
    return int(client.call("SaslHandshake", version, mechanism=mechanism).error_code)


def _send(client: RawClient, message: bytes) -> Any:
    try:
        answer = client.call("SaslAuthenticate", 2, auth_bytes=message)
    except ConnectionClosedError:
        return "closed"
    return {
        "error": answer.error_code,
        "answer": answer.auth_bytes,
        "lifetime": _lifetime(answer.session_lifetime_ms),
    }


def _lifetime(milliseconds: int) -> str | int:
    if (_HOUR - 60) * 1_000 < milliseconds <= _HOUR * 1_000:
        return "up to an hour"
    return "for ever" if milliseconds > 2**62 else milliseconds


def _login(harness: CaseHarness, message: bytes) -> Any:
    client = harness.connect_sasl()
    assert _shake(client) == 0
    seen = [_send(client, message)]
    if seen[0] != "closed" and seen[0]["answer"]:
        seen.append(_send(client, b"\x01"))
    return seen


def _user(client: RawClient) -> str:
    """Tell the super user root from others."""
    wanted = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
    wanted |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    return "another" if client.call("DescribeAcls", 3, **wanted).error_code else "root"


@secured_case
def oauth_bearer_login(harness: CaseHarness) -> Any:
    seen = {}
    for user in ("alice", "root"):
        client = harness.connect_sasl()
        seen[user] = [_shake(client), _send(client, _first(_token(sub=user))), _user(client)]
    return seen


@secured_case
def oauth_bearer_tokens(harness: CaseHarness) -> Any:
    now = time.time()
    valid = _token()
    header, claims, _ = valid.split(".")
    tokens = {
        "valid": valid,
        "typed": _token({"alg": "none", "typ": "JWT"}),
        "an integer time": _token(exp=int(now) + _HOUR),
        "no issue": _token(iat=None),
        "no expiration": _token(exp=None),
        "no principal": _token(sub=None),
        "an empty principal": _token(sub=" "),
        "a principal that is a number": _token(sub=5),
        "a principal that is a flag": _token(sub=True),
        "a principal that is a list": _token(sub=["alice"]),
        "expired": _token(exp=now - 5),
        "issued later": _token(iat=now + 60),
        "issued after its expiration": _token(iat=now + 2 * _HOUR),
        "an expiration that is a text": _token(exp="later"),
        "an issue that is a text": _token(iat="now"),
        "a scope": _token(scope="read"),
        "scopes": _token(scope=["read", "write", ""]),
        "a scope that is a number": _token(scope=5),
        "not before": _token(nbf=now + 60),
        "signed": valid + "c2ln",
        "an algorithm": _token({"alg": "HS256"}),
        "no algorithm": _token({"typ": "JWT"}),
        "no header": f".{claims}.",
        "no claims": f"{header}..",
        "two parts": f"{header}.{claims}",
        "four parts": valid + ".",
        "no JSON": f"{header}.{_part(b'no')}.",
        "a list": f"{header}.{_part(['alice'])}.",
        "no base64": f"{header}.abcde.",
        "URL-safe characters": _token(sub="alice", note="~~~???>>>" * 3),
        "one word": "token",
        "a huge time": _token(exp=10**30),
    }
    return {label: _login(harness, _first(token)) for label, token in tokens.items()}


@secured_case
def oauth_bearer_messages(harness: CaseHarness) -> Any:
    token = _token()
    messages = {
        "an identity": _first(token, identity="a=alice"),
        "another identity": _first(token, identity="a=bob"),
        "extensions": _first(token, pairs="one=1\x01two=a b\x01"),
        "an extension without a name": _first(token, pairs="=1\x01"),
        "an extension with a digit": _first(token, pairs="one1=1\x01"),
        "lower case": f"n,,\x01auth=bearer {token}\x01\x01".encode(),
        "two spaces": f"n,,\x01auth=Bearer  {token}\x01\x01".encode(),
        "another scheme": f"n,,\x01auth=Basic {token}\x01\x01".encode(),
        "no token": b"n,,\x01auth=Bearer\x01\x01",
        "no auth": b"n,,\x01one=1\x01\x01",
        "one end": f"n,,\x01auth=Bearer {token}\x01".encode(),
        "channel binding": f"y,,\x01auth=Bearer {token}\x01\x01".encode(),
        "nothing": b"",
        "an acknowledgement": b"\x01",
    }
    seen = {label: _login(harness, message) for label, message in messages.items()}
    client = harness.connect_sasl()
    _shake(client)
    seen["a valid token after an invalid one"] = [
        _send(client, _first(_token(sub=None))),
        _send(client, _first(token)),
        _user(client),
    ]
    return seen


@secured_case
def login_is_renewed(harness: CaseHarness) -> Any:
    def logged_in() -> RawClient:
        client = harness.connect_sasl()
        _shake(client)
        _send(client, _first(_token(sub="root")))
        return client

    same = logged_in()
    again = [
        *(_shake(same), _send(same, _first(_token(sub="root"))), _user(same)),
        # Not twice in a second: the login before was the first that counts.
        _shake(same),
        _user(same),
    ]
    another_user = logged_in()
    another = [_shake(another_user), _send(another_user, _first(_token(sub="alice")))]
    another_mechanism = logged_in()
    plain = f"\0root\0{PASSWORDS['root']}".encode()
    mechanism = [_shake(another_mechanism, "PLAIN"), _send(another_mechanism, plain)]
    invalid_token = logged_in()
    invalid = [
        _shake(invalid_token),
        _send(invalid_token, _first(_token(sub=None))),
        _send(invalid_token, b"\x01"),
    ]
    other = logged_in()
    _shake(other)
    try:
        meanwhile = other.call("Metadata", 9, topics=[]).controller_id >= 0
    except ConnectionClosedError:
        meanwhile = False
    return {
        "same": again,
        "another user": another,
        "another mechanism": mechanism,
        "invalid": invalid,
        "another request meanwhile": meanwhile,
    }


@secured_case
def session_ends(harness: CaseHarness) -> Any:
    client = harness.connect_sasl()
    _shake(client)
    _send(client, _first(_token(exp=time.time() + 1)))

    def is_closed() -> bool:
        try:
            client.call("Metadata", 9, topics=[])
        except ConnectionClosedError:
            return True
        return False

    began = time.monotonic()
    harness.until(is_closed)
    late = harness.connect_sasl()
    _shake(late)
    lifetime = late.call("SaslAuthenticate", 1, auth_bytes=_first(_token(exp=time.time() + 1)))
    return {
        "waited": time.monotonic() - began > 0.5,
        "short": 0 < lifetime.session_lifetime_ms <= 1_000,
    }
