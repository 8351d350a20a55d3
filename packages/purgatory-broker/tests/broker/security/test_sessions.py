"""Logins that end, and ACLs that stay."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker import Cluster
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker.server.oauth_bearer import InvalidTokenError, validated_token
from purgatory_broker.settings import ClusterSettings
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.parity.raw import ConnectionClosedError, RawClient

LISTENERS = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
PLAIN = b"\0alice\0secret"
DAY_MS = 86_400_000


def log_in(client: RawClient, mechanism: str = "PLAIN", message: bytes = PLAIN) -> Any:
    assert client.call("SaslHandshake", 1, mechanism=mechanism).error_code == 0
    return client.call("SaslAuthenticate", 2, auth_bytes=message)


def test_session_ends_without_another_login(connect: Connect) -> None:
    users = {"alice": "secret"}
    with Cluster(
        listeners=LISTENERS, sasl_users=users, connections_max_reauth_ms=DAY_MS
    ) as cluster:
        renewing, idle = (connect(cluster.bootstrap_servers_of("SASL_PLAINTEXT")) for _ in range(2))
        for client in (renewing, idle):
            assert log_in(client).session_lifetime_ms == DAY_MS
            cluster.advance_time(DAY_MS // 4)
        assert log_in(renewing).session_lifetime_ms == DAY_MS
        assert renewing.call("SaslHandshake", 1, mechanism="PLAIN").error_code == 34
        cluster.advance_time(DAY_MS * 4 // 5)
        assert renewing.call("Metadata", 9, topics=[]).brokers
        with pytest.raises(ConnectionClosedError):
            idle.call("Metadata", 9, topics=[])


def _token(claims: bytes) -> str:
    parts = (b'{"alg":"none"}', claims)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


def test_token_expires_when_time_is_advanced(connect: Connect) -> None:
    claims = json.dumps({"sub": "alice", "exp": time.time() + 3_600}).encode()
    message = f"n,,\x01auth=Bearer {_token(claims)}\x01\x01".encode()
    with Cluster(
        listeners="SASL_PLAINTEXT://127.0.0.1:0", sasl_enabled_mechanisms="OAUTHBEARER"
    ) as cluster:
        client = connect(cluster.bootstrap_servers)
        assert log_in(client, "OAUTHBEARER", message).auth_bytes == b""
        cluster.advance_time(3_600_000)
        late = connect(cluster.bootstrap_servers)
        assert log_in(late, "OAUTHBEARER", message).auth_bytes == b'{"status":"invalid_token"}'
        with pytest.raises(ConnectionClosedError):
            client.call("Metadata", 9, topics=[])


def test_session_ends_with_what_ends_first(connect: Connect) -> None:
    claims = json.dumps({"sub": "alice", "exp": time.time() + 3_600}).encode()
    message = f"n,,\x01auth=Bearer {_token(claims)}\x01\x01".encode()
    for max_session_ms, least, most in ((60_000, 60_000, 60_000), (DAY_MS, 3_500_000, 3_600_000)):
        with Cluster(
            listeners="SASL_PLAINTEXT://127.0.0.1:0",
            sasl_enabled_mechanisms="OAUTHBEARER",
            connections_max_reauth_ms=max_session_ms,
        ) as cluster:
            answer = log_in(connect(cluster.bootstrap_servers), "OAUTHBEARER", message)
            assert least <= answer.session_lifetime_ms <= most


@pytest.mark.parametrize(
    "claims",
    [
        b"[" * 100_000,
        b'{"sub":"a","exp":' + b"[" * 100_000,
        b'{"sub":"a","exp":' + b"9" * 10_000 + b"}",
        b'{"sub":"a","exp":NaN}',
        b"\xff\xfe\xfd",
    ],
    ids=["deep", "deep claim", "long number", "no number", "no text"],
)
def test_token_that_can_not_be_read_is_refused(claims: bytes) -> None:
    with pytest.raises(InvalidTokenError):
        validated_token(_token(claims), 0)


def test_infinite_expiration_is_no_error() -> None:
    token = validated_token(_token(b'{"sub":"a","exp":1e999}'), 0)
    assert token.expires_ms == 2**63 - 1


def test_token_without_an_algorithm_closes_the_connection() -> None:
    with pytest.raises(WireError, match="names no algorithm"):
        validated_token(".e30.", 0)


def test_acls_survive_a_restart_but_not_a_reset(tmp_path: Path, connect: Connect) -> None:
    acl = {
        "resource_type": 2,
        "resource_name": "orders",
        "resource_pattern_type": 4,
        "principal": "User:alice",
        "host": "10.0.0.1",
        "operation": 3,
        "permission_type": 2,
    }
    wanted = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
    wanted |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}

    def described(cluster: Cluster) -> list[Any]:
        answer = connect(cluster.bootstrap_servers).call("DescribeAcls", 3, **wanted)
        assert answer.error_code == 0
        return [
            (each.resource_name, each.pattern_type, one.principal, one.host, one.operation)
            for each in answer.resources
            for one in each.acls
        ]

    settings: dict[str, Any] = {"authorizer": True, "super_users": "User:ANONYMOUS"}
    with Cluster(data_dir=tmp_path, **settings) as cluster:
        made = connect(cluster.bootstrap_servers).call("CreateAcls", 3, creations=[acl])
        assert made.results[0].error_code == 0
    with Cluster(data_dir=tmp_path, **settings) as cluster:
        assert described(cluster) == [("orders", 4, "User:alice", "10.0.0.1", 3)]
        cluster.reset()
        assert described(cluster) == []


def test_everybody_may_use_what_has_no_acl(connect: Connect) -> None:
    with Cluster(authorizer=True, allow_everyone_if_no_acl_found=True) as cluster:
        cluster.create_topic("orders")
        answer = connect(cluster.bootstrap_servers).call("Metadata", 9, topics=[{"name": "orders"}])
        assert answer.topics[0].error_code == 0
    with Cluster(authorizer=True) as cluster:
        cluster.create_topic("orders")
        answer = connect(cluster.bootstrap_servers).call("Metadata", 9, topics=[{"name": "orders"}])
        assert answer.topics[0].error_code == 29


@pytest.mark.parametrize("principals", ["alice", "User:", ":alice", "User:alice;bob"])
def test_super_users_are_named_with_their_type(principals: str) -> None:
    with pytest.raises(InvalidArgumentError, match="super_users must be of the form TYPE:NAME"):
        ClusterSettings(super_users=principals)


def test_super_users_may_have_spaces_around_them() -> None:
    settings = ClusterSettings(super_users=" User:alice ; User:CN=bob,O=shop;")
    assert settings.super_user_names == {"User:alice", "User:CN=bob,O=shop"}
