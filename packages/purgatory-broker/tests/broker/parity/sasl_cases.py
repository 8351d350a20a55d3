"""Logins by SASL, and SCRAM credentials."""

from __future__ import annotations

from typing import Any

from tests.broker.kafka_server import PLAIN_PASSWORD, PLAIN_USER
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import REQUESTS, ConnectionClosedError, RawClient, message
from tests.broker.scram_client import NUMBERS, ScramClient, salted_password

_RIGHT = f"\0{PLAIN_USER}\0{PLAIN_PASSWORD}".encode()
#: Kafka's limit on requests before the login, `sasl.server.max.receive.size`.
_MAX_BYTES = 524_288


def _shake(client: RawClient, mechanism: str, version: int = 1) -> Any:
    answer = client.call("SaslHandshake", version, mechanism=mechanism)
    answer.mechanisms = sorted(answer.mechanisms)
    return answer


def _token(client: RawClient, token: bytes, version: int = 2) -> Any:
    return client.call("SaslAuthenticate", version, auth_bytes=token)


def _end(client: RawClient) -> str:
    return "closed" if client.is_closed(within=2) else "open"


def _tried(client: RawClient, api: str, version: int, **fields: Any) -> Any:
    try:
        answer = client.call(api, version, **fields)
    except ConnectionClosedError:
        return "closed"
    return [{"error_code": answer.error_code}, _end(client)]


@case
def sasl_on_a_listener_without_it(harness: CaseHarness) -> Any:
    client = harness.node_0
    return {f"handshake v{each}": _shake(client, "PLAIN", each) for each in (0, 1)} | {
        f"authenticate v{each}": _token(client, _RIGHT, each) for each in (0, 1, 2)
    }


@case
def sasl_login_by_plain(harness: CaseHarness) -> Any:
    seen = {}
    for version in (0, 1, 2):
        client = harness.connect_sasl()
        client.call("ApiVersions", 0)
        seen[f"v{version}"] = [
            _shake(client, "PLAIN"),
            _token(client, _RIGHT, version),
            len(client.call("Metadata", 9, topics=[]).brokers),
            _shake(client, "PLAIN"),
            _token(client, _RIGHT, version),
            _end(client),
        ]
    return seen


@case
def sasl_login_by_plain_fails(harness: CaseHarness) -> Any:
    user, password = PLAIN_USER.encode(), PLAIN_PASSWORD.encode()
    tokens = {
        "wrong password": b"\0" + user + b"\0no",
        "unknown user": b"\0nobody\0no",
        "no user": b"\0\0no",
        "no password": b"\0" + user + b"\0",
        "two parts": user + b"\0" + password,
        "four parts": _RIGHT + b"\0",
        "the same identity": user + _RIGHT,
        "another identity": b"root" + _RIGHT,
        "no UTF-8": b"\0\xff\xfe\0\xff",
        "nothing": b"",
    }
    seen = {}
    for name, token in tokens.items():
        client = harness.connect_sasl()
        _shake(client, "PLAIN")
        seen[name] = [_token(client, token), _end(client)]
    return seen


@case
def sasl_mechanism_is_unknown(harness: CaseHarness) -> Any:
    seen = {}
    for mechanism in ("GSSAPI", "plain", ""):
        for version in (0, 1):
            client = harness.connect_sasl()
            seen[f"{mechanism} v{version}"] = [_shake(client, mechanism, version), _end(client)]
    return seen


@case
def sasl_requests_before_the_login(harness: CaseHarness) -> Any:
    requests: dict[str, tuple[str, int, dict[str, Any]]] = {
        "metadata": ("Metadata", 9, {"topics": []}),
        "find coordinator": ("FindCoordinator", 3, {"key": "g", "key_type": 0}),
        "authenticate": ("SaslAuthenticate", 2, {"auth_bytes": _RIGHT}),
        "versions": ("ApiVersions", 0, {}),
        "handshake": ("SaslHandshake", 1, {"mechanism": "PLAIN"}),
    }
    seen: dict[str, Any] = {}
    for name, (api, version, fields) in requests.items():
        first = harness.connect_sasl()
        seen[f"{name}, first"] = _tried(first, api, version, **fields)
        later = harness.connect_sasl()
        later.call("ApiVersions", 0)
        seen[f"{name}, after the versions"] = _tried(later, api, version, **fields)
        last = harness.connect_sasl()
        _shake(last, "PLAIN")
        seen[f"{name}, after the handshake"] = _tried(last, api, version, **fields)
    return seen


@case
def sasl_versions_may_be_asked_for_again_after_an_error(harness: CaseHarness) -> Any:
    client = harness.connect_sasl()
    software = {"client_software_name": "-", "client_software_version": "1"}
    # kafka-python can't decode such an answer.
    client.write(message(REQUESTS["ApiVersions"], software), 3, answered=False)
    return [
        {"error_code": int.from_bytes(client.read_frame()[4:6])},
        client.call("ApiVersions", 0).error_code,
        _shake(client, "PLAIN").error_code,
    ]


@case
def sasl_tokens_without_requests(harness: CaseHarness) -> Any:
    seen = {}
    for name, token in {"right": _RIGHT, "wrong": b"\0" + PLAIN_USER.encode() + b"\0no"}.items():
        client = harness.connect_sasl()
        _shake(client, "PLAIN", 0)
        client.write_frame(token)
        try:
            seen[name] = [len(client.read_frame()), len(client.call("Metadata", 9).brokers)]
        except ConnectionClosedError:
            seen[name] = ["closed"]
    return seen


@case
def sasl_frames_before_the_login_are_limited(harness: CaseHarness) -> Any:
    seen = {}
    for size in (_MAX_BYTES, _MAX_BYTES + 1):
        client = harness.connect_sasl()
        client.write_bytes(size.to_bytes(4))
        seen[size] = "closed" if client.is_closed(within=1) else "open"
    return seen


def _upsert(
    client: RawClient, user: str, mechanism: str, password: str, iterations: int = 4_096
) -> Any:
    salt = b"salt of the test"
    change = {
        "name": user,
        "mechanism": NUMBERS[mechanism],
        "iterations": iterations,
        "salt": salt,
        "salted_password": salted_password(mechanism, password, salt, iterations),
    }
    return client.call("AlterUserScramCredentials", 0, deletions=[], upsertions=[change])


def _describe(client: RawClient, *users: str) -> Any:
    named = [{"name": user} for user in users]
    return client.call("DescribeUserScramCredentials", 0, users=named)


def _login(harness: CaseHarness, mechanism: str, user: str, password: str) -> list[Any]:
    """Log in by SCRAM; return what happened."""
    client = harness.connect_sasl()
    _shake(client, mechanism)
    login = ScramClient(mechanism, user, password)
    first = _token(client, login.first())
    if first.error_code:
        return [{"error_code": first.error_code}, _end(client)]
    second = _token(client, login.final(first.auth_bytes))
    if second.error_code:
        return ["challenged", {"error_code": second.error_code}, _end(client)]
    assert login.is_servers(second.auth_bytes)
    return ["challenged", "logged in", len(client.call("Metadata", 9, topics=[]).brokers)]


@case
def sasl_login_by_scram(harness: CaseHarness) -> Any:
    seen: dict[str, Any] = {}
    for mechanism in NUMBERS:
        user = harness.name(mechanism.lower())
        seen[mechanism] = [_upsert(harness.node_0, user, mechanism, "secret", 8_192)]
        # Nodes learn of it one after the other.
        harness.until(lambda: "logged in" in _login(harness, mechanism, user, "secret"))  # noqa: B023
        other = next(each for each in NUMBERS if each != mechanism)
        seen[mechanism] += [
            _login(harness, mechanism, user, "secret"),
            _login(harness, mechanism, user, "wrong"),
            _login(harness, mechanism, harness.name("nobody"), "secret"),
            _login(harness, other, user, "secret"),
        ]
    return seen


@case
def sasl_login_by_scram_with_bad_messages(harness: CaseHarness) -> Any:
    mechanism, user = "SCRAM-SHA-256", harness.name("user")
    _upsert(harness.node_0, user, mechanism, "secret")
    harness.until(lambda: "logged in" in _login(harness, mechanism, user, "secret"))
    firsts = {
        "nothing": b"",
        "no header": f"n={user},r=nonce".encode(),
        "channel binding": f"p=tls-unique,,n={user},r=nonce".encode(),
        "binding supported": f"y,,n={user},r=nonce".encode(),
        "no nonce": f"n,,n={user}".encode(),
        "empty nonce": f"n,,n={user},r=".encode(),
        "the same identity": f"n,a={user},n={user},r=nonce".encode(),
        "another identity": f"n,a=root,n={user},r=nonce".encode(),
        "extension": f"n,,n={user},r=nonce,x=1".encode(),
        "no UTF-8": f"n,,n={user},r=".encode() + b"\xff",
    }
    seen: dict[str, Any] = {}
    for name, first_message in firsts.items():
        client = harness.connect_sasl()
        _shake(client, mechanism)
        seen[name] = _tried(client, "SaslAuthenticate", 2, auth_bytes=first_message)
    finals = {
        "empty": lambda final: b"",
        "other nonce": lambda final: final.replace(b",r=", b",r=x"),
        "without the server's nonce": lambda final: b"c=biws,r=nonce,p=" + final.split(b",p=")[1],
        "short proof": lambda final: final.split(b",p=")[0] + b",p=AAAA",
        "no proof": lambda final: final.split(b",p=")[0],
        "other binding": lambda final: final.replace(b"c=biws", b"c=eSws"),
    }
    for name, change in finals.items():
        client = harness.connect_sasl()
        _shake(client, mechanism)
        login = ScramClient(mechanism, user, "secret")
        first = _token(client, login.first())
        token = change(login.final(first.auth_bytes))
        seen[f"final, {name}"] = _tried(client, "SaslAuthenticate", 2, auth_bytes=token)
    return seen


@case
def scram_credentials(harness: CaseHarness) -> Any:
    user, client = harness.name("user"), harness.node_0
    missing = _describe(client, user)
    made = _upsert(client, user, "SCRAM-SHA-512", "secret", 4_096)
    harness.until(lambda: not _describe(client, user).results[0].error_code)
    first = _describe(client, user)
    _upsert(client, user, "SCRAM-SHA-256", "secret", 16_384)
    harness.until(lambda: len(_describe(client, user).results[0].credential_infos) == 2)
    both = _describe(client, user, harness.name("none"))
    twice = _describe(client, user, user)
    listed = [each for each in _describe(client).results if each.user == user]
    deletion = {"deletions": [{"name": user, "mechanism": 2}], "upsertions": []}
    deleted = client.call("AlterUserScramCredentials", 0, **deletion)
    harness.until(lambda: len(_describe(client, user).results[0].credential_infos) == 1)
    again = client.call("AlterUserScramCredentials", 0, **deletion)
    return {
        "missing": missing,
        "made": made,
        "one": first,
        "both": both,
        "twice": twice,
        "listed": listed,
        "deleted": deleted,
        "deleted again": again,
        "left": _describe(client, user),
    }


@case
def scram_credentials_that_are_refused(harness: CaseHarness) -> Any:
    client = harness.node_0
    good = {
        "name": harness.name("user"),
        "mechanism": 1,
        "iterations": 4_096,
        "salt": b"salt",
        "salted_password": bytes(32),
    }

    def alter(*upsertions: dict[str, Any], deletions: Any = ()) -> Any:
        return client.call(
            "AlterUserScramCredentials",
            0,
            deletions=list(deletions),
            upsertions=[good | each for each in upsertions],
        )

    user = {"name": good["name"], "mechanism": 1}
    return {
        "too few iterations": alter({"iterations": 4_095}),
        "too many iterations": alter({"iterations": 16_385}),
        "no name": alter({"name": ""}),
        "unknown mechanism": alter({"mechanism": 3}),
        "mechanism 0": alter({"mechanism": 0}),
        "twice": alter({}, {"mechanism": 2}),
        "three times": alter({}, {}, {}),
        "deleted and made": alter({}, deletions=[user]),
        "unknown deletion": alter(deletions=[user]),
        "deleted twice": alter(deletions=[user, user]),
        "no name to delete": alter(deletions=[{"name": "", "mechanism": 1}]),
        "unknown mechanism to delete": alter(deletions=[user | {"mechanism": 9}]),
        "nothing": alter(),
    }
