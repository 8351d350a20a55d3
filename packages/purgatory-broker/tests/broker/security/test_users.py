"""Who a client is, for quotas by user."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
from kafka.protocol.admin import AlterClientQuotasRequest

from purgatory_broker import Cluster
from purgatory_broker.server.security import distinguished_name
from tests.broker.certificates import Certificates
from tests.broker.conftest import Connect
from tests.broker.log.batches import batch
from tests.broker.parity.raw import RawClient, message
from tests.broker.scram_client import ScramClient
from tests.broker.security.test_tls import settings, tls_client, trusting

DATA = batch(b"x" * 20_000)


def throttle_ms(client: RawClient) -> int:
    """Produce 20 kB, and return the throttle time."""
    answer = client.call(
        "Produce",
        9,
        acks=1,
        timeout_ms=1_000,
        transactional_id=None,
        topic_data=[{"name": "t", "partition_data": [{"index": 0, "records": DATA}]}],
    )
    return int(answer.throttle_time_ms)


def limit(client: RawClient, user: str) -> None:
    """Give a user a quota of 100 bytes per second."""
    entry = {
        "entity": [{"entity_type": "user", "entity_name": user}],
        "ops": [{"key": "producer_byte_rate", "value": 100.0, "remove": False}],
    }
    fields = {"entries": [entry], "validate_only": False}
    answer = client.send(message(AlterClientQuotasRequest, fields), 1)
    assert [each.error_code for each in answer.entries] == [0]


def test_quota_is_of_the_user_who_has_logged_in(connect: Connect) -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
    users = dict.fromkeys(("plain", "bare", "scram", "other"), "secret")
    with Cluster(listeners=listeners, sasl_users=users) as cluster:
        cluster.create_topic("t")
        outside = connect(cluster.bootstrap_servers)
        for user in ("plain", "bare", "scram"):
            limit(outside, user)

        def logged_in(user: str) -> RawClient:
            client = connect(cluster.bootstrap_servers_of("SASL_PLAINTEXT"))
            token = f"\0{user}\0secret".encode()
            if user == "bare":
                client.call("SaslHandshake", 0, mechanism="PLAIN")
                client.write_frame(token)
                assert client.read_frame() == b""
            elif user == "scram":
                client.call("SaslHandshake", 1, mechanism="SCRAM-SHA-256")
                login = ScramClient("SCRAM-SHA-256", user, "secret")
                challenge = client.call("SaslAuthenticate", 2, auth_bytes=login.first())
                final = login.final(bytes(challenge.auth_bytes))
                assert client.call("SaslAuthenticate", 2, auth_bytes=final).error_code == 0
            else:
                client.call("SaslHandshake", 1, mechanism="PLAIN")
                assert client.call("SaslAuthenticate", 2, auth_bytes=token).error_code == 0
            return client

        for user in ("plain", "bare", "scram"):
            assert throttle_ms(logged_in(user)) > 0, user
        assert throttle_ms(logged_in("other")) == 0
        assert throttle_ms(outside) == 0


def test_quota_is_of_the_certificates_subject(certificates: Certificates) -> None:
    options = settings(certificates, ssl_client_auth="requested")
    with Cluster(**options) as cluster:
        cluster.create_topic("t")
        own = ssl._ssl._test_decode_cert(str(certificates.client))  # type: ignore[attr-defined]
        with tls_client(cluster.bootstrap_servers, trusting(certificates)) as client:
            limit(client, distinguished_name(own["subject"]))
            assert throttle_ms(client) == 0
            context = trusting(certificates, certificates.client)
            with tls_client(cluster.bootstrap_servers, context) as known:
                assert throttle_ms(known) > 0
            limit(client, "ANONYMOUS")
            assert throttle_ms(client) > 0


def test_permission_is_of_the_certificates_subject(certificates: Certificates) -> None:
    own = ssl._ssl._test_decode_cert(str(certificates.client))  # type: ignore[attr-defined]
    principal = f"User:{distinguished_name(own['subject'])}"
    options = settings(certificates, ssl_client_auth="requested")
    with Cluster(**options, authorizer=True, super_users=principal) as cluster:
        cluster.create_topic("t")
        context = trusting(certificates, certificates.client)
        with tls_client(cluster.bootstrap_servers, context) as known:
            assert known.call("Metadata", 9, topics=[{"name": "t"}]).topics[0].error_code == 0
        with tls_client(cluster.bootstrap_servers, trusting(certificates)) as client:
            assert client.call("Metadata", 9, topics=[{"name": "t"}]).topics[0].error_code == 29


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ((), ""),
        (((("commonName", "alice"),),), "CN=alice"),
        (
            # A certificate's subject, and what Java's `X500Principal.getName` returns for it.
            (
                (("countryName", "DE"),),
                (("stateOrProvinceName", "Ba,yern"),),
                (("localityName", " München "),),
                (("streetAddress", 'a+b;c<d>e"f\\g=h#i'),),
                (("organizationName", "#org"),),
                (("organizationalUnitName", "unit #1"), ("userId", "uid")),
                (("domainComponent", "kafka"),),
                (("commonName", "alice"),),
            ),
            "CN=alice,DC=kafka,OU=unit \\#1+UID=uid,O=\\#org,"
            'STREET=a\\+b\\;c\\<d\\>e\\"f\\\\g\\=h\\#i,L=\\ München\\ ,ST=Ba\\,yern,C=DE',
        ),
        (((("emailAddress", "a@b.c"),), (("commonName", "  "),)), "CN=\\ \\ ,emailAddress=a@b.c"),
    ],
)
def test_name_of_a_subject_is_javas(subject: Any, expected: str) -> None:
    """Where RFC 2253 has a short name for each attribute."""
    assert distinguished_name(subject) == expected
