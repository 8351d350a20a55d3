"""Passwords are not shown: not in logs, errors and representations, nor among the requests."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from purgatory_broker import Cluster, ClusterProcess, ClusterSettings
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.cluster.cluster_client import ClusterClient
from purgatory_broker.server.sasl import SaslLogin
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.parity.raw import RawClient
from tests.broker.scram_client import NUMBERS, ScramClient, salted_password

LISTENERS = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
PASSWORD = "hush-hush"


def log_in(client: RawClient, password: str) -> int:
    """Log in by PLAIN, and return the error."""
    client.call("SaslHandshake", 1, mechanism="PLAIN")
    token = f"\0alice\0{password}".encode()
    return int(client.call("SaslAuthenticate", 2, auth_bytes=token).error_code)


@pytest.mark.parametrize("kind", [Cluster, ClusterProcess], ids=["thread", "process"])
def test_requests_hide_passwords(kind: type[ClusterClient], connect: Connect) -> None:
    settings: dict[str, Any] = {"listeners": LISTENERS, "sasl_users": {"alice": PASSWORD}}
    with kind(**settings) as cluster:  # type: ignore[call-arg]
        address = cluster.bootstrap_servers_of("SASL_PLAINTEXT")
        client = connect(address)
        assert log_in(client, PASSWORD) == 0
        salted = salted_password("SCRAM-SHA-256", PASSWORD, b"salt", 4_096)
        client.call(
            "AlterUserScramCredentials",
            0,
            deletions=[],
            upsertions=[
                {
                    "name": "bob",
                    "mechanism": NUMBERS["SCRAM-SHA-256"],
                    "iterations": 4_096,
                    "salt": b"salt",
                    "salted_password": salted,
                }
            ],
        )
        scram = connect(address)
        scram.call("SaslHandshake", 1, mechanism="SCRAM-SHA-256")
        first = ScramClient("SCRAM-SHA-256", "alice", PASSWORD).first()
        assert scram.call("SaslAuthenticate", 2, auth_bytes=first).error_code == 0
        plain, challenge = cluster.requests(api="SaslAuthenticate")
        (altered,) = cluster.requests(api="AlterUserScramCredentials")
        assert PASSWORD not in repr(cluster.requests())
    assert plain.request is not None
    assert plain.request["auth_bytes"] == "[hidden]"
    assert challenge.response is not None
    assert challenge.response["auth_bytes"] == "[hidden]"
    assert challenge.response["error_code"] == 0
    assert altered.request is not None
    (upsertion,) = altered.request["upsertions"]
    assert (upsertion["name"], upsertion["salted_password"]) == ("bob", "[hidden]")


def test_logs_have_no_passwords(
    connect: Connect, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    with Cluster(listeners=LISTENERS, sasl_users={"alice": PASSWORD}) as cluster:
        address = cluster.bootstrap_servers_of("SASL_PLAINTEXT")
        assert log_in(connect(address), PASSWORD) == 0
        for wrong in (f"{PASSWORD}-mistyped", f"{PASSWORD}\0{PASSWORD}"):
            client = connect(address)
            assert log_in(client, wrong) == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert client.is_closed(within=30), "which is logged"

        def fail(_login: SaslLogin, _token: bytes) -> bytes:
            raise RuntimeError("a bug")

        monkeypatch.setattr(SaslLogin, "evaluate", fail)
        assert log_in(connect(address), PASSWORD) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a bug" in caplog.text
    assert "Invalid username or password" in caplog.text
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {"sasl_users": {"alice": ""}, "ssl_key_password": PASSWORD},
        {"sasl_users": {"": PASSWORD}},
        {"sasl_users": {"alice": 5, "bob": PASSWORD}},
        {"sasl_users": f"alice:{PASSWORD}"},
        {"sasl_users": [("alice", PASSWORD)]},
        {"ssl_key_password": PASSWORD.encode()},
    ],
)
def test_errors_have_no_passwords(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        ClusterSettings(**options)
    assert PASSWORD not in str(refused.value)
    assert PASSWORD not in repr(refused.value)


def test_representations_have_no_passwords() -> None:
    settings = ClusterSettings(sasl_users={"alice": PASSWORD}, ssl_key_password=PASSWORD)
    assert PASSWORD not in repr(settings)
    assert PASSWORD not in repr(AsyncCluster(settings)._parts)
