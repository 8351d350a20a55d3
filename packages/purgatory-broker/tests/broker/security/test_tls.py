"""TLS listeners."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker import Cluster
from purgatory_broker.server import socket_listener
from request_purgatory.errors import InvalidArgumentError
from tests.broker.certificates import Certificates
from tests.broker.clients.waiting import until
from tests.broker.hostile.conftest import no_errors_logged
from tests.broker.parity.raw import ConnectionClosedError, RawClient
from tests.broker.raw_requests import fetch, produce

TIME_LIMIT = 30.0


@contextmanager
def tls_client(address: str, context: ssl.SSLContext) -> Iterator[RawClient]:
    """Connect by TLS, and close the connection afterwards."""
    client = RawClient(address)
    client._socket = context.wrap_socket(client._socket, server_hostname="127.0.0.1")
    try:
        yield client
    finally:
        client.close()


def settings(certificates: Certificates, **others: Any) -> dict[str, Any]:
    """Return the settings of a TLS listener."""
    found = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl_keystore_location": str(certificates.broker),
        "ssl_truststore_location": str(certificates.authority),
    }
    return found | others


def trusting(certificates: Certificates, own: Path | None = None) -> ssl.SSLContext:
    """Return a client's context, with a certificate of its own or without."""
    context = ssl.create_default_context(cafile=certificates.authority)
    if own is not None:
        context.load_cert_chain(own)
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_clients_verify_the_broker(certificates: Certificates, version: ssl.TLSVersion) -> None:
    with Cluster(**settings(certificates)) as cluster:
        context = trusting(certificates)
        context.minimum_version = context.maximum_version = version
        with tls_client(cluster.bootstrap_servers, context) as client:
            assert client.call("Metadata", 9, topics=[]).brokers
        with (
            pytest.raises(ssl.SSLCertVerificationError),
            tls_client(cluster.bootstrap_servers, ssl.create_default_context()),
        ):
            pass


@pytest.mark.parametrize(
    ("client_auth", "own", "is_served"),
    [
        ("none", None, True),
        ("none", "stranger", True),
        ("requested", None, True),
        ("requested", "client", True),
        ("requested", "stranger", False),
        ("required", None, False),
        ("required", "client", True),
        ("required", "stranger", False),
    ],
)
def test_clients_are_verified(
    certificates: Certificates, client_auth: str, own: str | None, is_served: bool
) -> None:
    options = settings(certificates, ssl_client_auth=client_auth)
    with no_errors_logged(), Cluster(**options) as cluster:
        context = trusting(certificates, None if own is None else getattr(certificates, own))
        try:
            with tls_client(cluster.bootstrap_servers, context) as client:
                served = bool(client.call("Metadata", 9, topics=[]).brokers)
        except (ssl.SSLError, ConnectionClosedError, ConnectionError):
            # With TLS 1.3, a client learns of the refusal when it reads.
            served = False
        assert served is is_served


def test_what_is_no_tls_closes_the_connection(certificates: Certificates) -> None:
    with no_errors_logged(), Cluster(**settings(certificates)) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        for sent in (b"\0\0\0\x10" + bytes(16), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff"):
            with socket.create_connection((host, int(port)), TIME_LIMIT) as connection:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                try:
                    while connection.recv(1_000):
                        pass
                except ConnectionError:
                    pass
        with tls_client(cluster.bootstrap_servers, trusting(certificates)) as client:
            assert client.call("Metadata", 9, topics=[]).brokers


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged of failed handshakes."""
    found = [each for each in caplog.records if "TLS handshake" in each.getMessage()]
    assert all(each.levelno == logging.INFO and each.exc_info is None for each in found)
    return [each.getMessage() for each in found]


def test_reason_of_a_failed_handshake_is_logged(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    with Cluster(**settings(certificates, ssl_client_auth="required")) as cluster:
        host, port = cluster.bootstrap_servers.split(":")

        def connect(sent: bytes) -> None:
            with socket.create_connection((host, int(port)), TIME_LIMIT) as connection:
                connection.sendall(sent)
                while connection.recv(1_000):
                    pass

        def shake(context: ssl.SSLContext) -> None:
            with (
                suppress(ssl.SSLError, ConnectionError),
                tls_client(cluster.bootstrap_servers, context) as client,
            ):
                assert client._socket.recv(1) == b""

        attempts: dict[str, Callable[[], object]] = {
            "HTTP_REQUEST": lambda: connect(b"GET / HTTP/1.1\r\n\r\n"),
            "longer than 0.5 seconds": lambda: connect(b""),
            "the client has closed": lambda: socket.create_connection((host, int(port))).close(),
            "did not return a certificate": lambda: shake(trusting(certificates)),
            "certificate verify failed": lambda: shake(
                trusting(certificates, certificates.stranger)
            ),
            "unknown ca": lambda: shake(ssl.create_default_context()),
        }
        for reason, attempt in attempts.items():
            caplog.clear()
            limit = 0.5 if reason == "longer than 0.5 seconds" else TIME_LIMIT
            monkeypatch.setattr(socket_listener, "TLS_HANDSHAKE_TIMEOUT", limit)
            attempt()
            until(lambda: failures(caplog))
            (message,) = failures(caplog)
            assert reason in message
            assert "/127.0.0.1" in message
            assert "\n" not in message


def test_handshakes_count_as_connections(certificates: Certificates) -> None:
    options = settings(certificates, max_connections=2)
    with Cluster(**options) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        address = (host, int(port))
        with (
            socket.create_connection(address, TIME_LIMIT) as first,
            socket.create_connection(address, TIME_LIMIT),
        ):
            with socket.create_connection(address, TIME_LIMIT) as third:
                third.settimeout(5)
                assert third.recv(1) == b"", "closed at once, not after a timeout"
            first.close()

            def is_served() -> bool:
                try:
                    with tls_client(cluster.bootstrap_servers, trusting(certificates)) as client:
                        return bool(client.call("Metadata", 9, topics=[]).brokers)
                except (ssl.SSLError, ConnectionError, ConnectionClosedError):
                    return False

            for _ in range(3):
                until(is_served)


def test_cluster_stops_during_a_handshake(certificates: Certificates) -> None:
    with no_errors_logged(), Cluster(**settings(certificates, max_connections=1)) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        begun = socket.create_connection((host, int(port)), 5)
        with socket.create_connection((host, int(port)), 5) as other:
            assert other.recv(1) == b"", "the first one has been accepted"
    with begun:
        try:
            assert begun.recv(1) == b""
        except ConnectionResetError:
            pass


def test_large_requests_and_responses_cross_tls(certificates: Certificates) -> None:
    with Cluster(**settings(certificates), message_max_bytes=2**23) as cluster:
        cluster.create_topic("t")
        with tls_client(cluster.bootstrap_servers, trusting(certificates)) as client:
            assert produce(client, "t", bytes(4_000_000)).error_code == 0
            client._socket.settimeout(TIME_LIMIT)
            assert len(fetch(client, "t", 0).records) > 4_000_000


def test_encrypted_key_needs_its_password(certificates: Certificates, tmp_path: Path) -> None:
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    pem = certificates.broker.read_bytes()
    key = serialization.load_pem_private_key(pem, None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"hush"),
    )
    path = tmp_path / "encrypted.pem"
    path.write_bytes(encrypted + pem[pem.index(b"-----BEGIN CERTIFICATE") :])
    options = settings(certificates, ssl_keystore_location=path)
    with (
        Cluster(**options, ssl_key_password="hush") as cluster,
        tls_client(cluster.bootstrap_servers, trusting(certificates)) as client,
    ):
        assert client.call("Metadata", 9, topics=[]).brokers
    for password in ({}, {"ssl_key_password": "wrong"}):
        with pytest.raises(InvalidArgumentError, match="ssl_keystore_location"):
            Cluster(**options, **password).start()


@pytest.mark.parametrize("setting", ["ssl_keystore_location", "ssl_truststore_location"])
def test_unusable_file_is_named(certificates: Certificates, tmp_path: Path, setting: str) -> None:
    other = tmp_path / "other.pem"
    other.write_text("no certificate")
    for path in (tmp_path / "missing.pem", other):
        cluster = Cluster(**settings(certificates, **{setting: path}))
        with pytest.raises(
            InvalidArgumentError, match=f"{setting} must be a PEM file.*{path.name}"
        ):
            cluster.start()


def test_client_certificates_need_an_authority(certificates: Certificates) -> None:
    options = settings(certificates, ssl_truststore_location=None, ssl_client_auth="required")
    with pytest.raises(InvalidArgumentError, match="ssl_truststore_location must be given"):
        Cluster(**options)
