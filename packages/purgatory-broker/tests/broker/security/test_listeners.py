"""Where nodes listen, and which addresses they advertise."""

from __future__ import annotations

import logging
import socket
from typing import Any

import pytest

from purgatory_broker import Cluster, ClusterProcess, ClusterSettings
from purgatory_broker.listeners import Listener, SecurityProtocol
from purgatory_broker.server.security import warn_if_reachable
from request_purgatory.errors import InvalidArgumentError
from tests.broker.certificates import Certificates
from tests.broker.conftest import Connect
from tests.support.ports import free_ports

TWO = "PLAINTEXT://127.0.0.1:0,OUTSIDE://127.0.0.1:0"
MAP = "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT"


def plain(host: str, port: int, advertised_host: str = "", advertised_port: int = 0) -> Listener:
    """Return a PLAINTEXT listener, which by default advertises the host that it binds to."""
    return Listener(
        "PLAINTEXT",
        SecurityProtocol.PLAINTEXT,
        host,
        port,
        advertised_host or host,
        advertised_port,
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [plain("127.0.0.1", 0), plain("127.0.0.1", 0)]),
        ({"port": 9092}, [plain("127.0.0.1", 9092), plain("127.0.0.1", 9093)]),
        ({"host": "10.0.0.1"}, [plain("10.0.0.1", 0), plain("10.0.0.1", 0)]),
        ({"host": "::1", "port": 9}, [plain("::1", 9), plain("::1", 10)]),
        (
            {"listeners": "plaintext://[::1]:9092"},
            [plain("::1", 9092), plain("::1", 9093)],
        ),
        (
            {"listeners": "PLAINTEXT://:1", "advertised_listeners": "PLAINTEXT://kafka.test:5"},
            [plain("0.0.0.0", 1, "kafka.test", 5), plain("0.0.0.0", 2, "kafka.test", 6)],
        ),
        (
            {"host": "0.0.0.0", "advertised_listeners": "PLAINTEXT://kafka.test:0"},
            [plain("0.0.0.0", 0, "kafka.test"), plain("0.0.0.0", 0, "kafka.test")],
        ),
        (
            {"listeners": "PLAINTEXT://:0"},
            [plain("0.0.0.0", 0, socket.getfqdn()), plain("0.0.0.0", 0, socket.getfqdn())],
        ),
    ],
)
def test_listeners_follow_from_the_settings(
    options: dict[str, Any], expected: list[Listener]
) -> None:
    found = ClusterSettings(nodes=2, **options).node_listeners()
    assert found == [(each,) for each in expected]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"listeners": "nonsense"}, "NAME://host:port"),
        ({"listeners": "PLAINTEXT://127.0.0.1"}, "NAME://host:port"),
        ({"listeners": "PLAINTEXT://127.0.0.1:-1"}, "NAME://host:port"),
        ({"listeners": ""}, "NAME://host:port"),
        ({"listeners": 9092}, "listeners must be a str or None"),
        ({"listeners": "PLAINTEXT://127.0.0.1:70000"}, "at most 65535"),
        ({"listeners": "PLAINTEXT://127.0.0.1:65535", "nodes": 2}, "at most 65534"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "without PLAINTEXT twice"),
        ({"listeners": "OTHER://127.0.0.1:1"}, r"unlike \['OTHER'\]"),
        ({"listeners": TWO.replace(":0", ":1"), "listener_security_protocol_map": MAP}, "share"),
        (
            {
                "listeners": "PLAINTEXT://127.0.0.1:1,OUTSIDE://127.0.0.1:2",
                "listener_security_protocol_map": MAP,
                "nodes": 2,
            },
            "2 nodes",
        ),
        ({"listener_security_protocol_map": "PLAINTEXT:NONE"}, "NAME:PROTOCOL"),
        ({"listener_security_protocol_map": "PLAINTEXT"}, "NAME:PROTOCOL"),
        ({"host": "0.0.0.0"}, "advertised_listeners must be given"),
        ({"listeners": "PLAINTEXT://[::]:0"}, "advertised_listeners must be given"),
        ({"advertised_listeners": "OTHER://a:1"}, r"not \['OTHER'\]"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "clients can connect to"),
        ({"listeners": "PLAINTEXT://127.0.0.1:1", "port": 1}, "left out with listeners"),
        ({"listeners": "PLAINTEXT://127.0.0.1:1", "host": "::1"}, "left out with listeners"),
        ({"listeners": "SSL://127.0.0.1:0"}, "ssl_keystore_location must be given"),
        ({"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}, "sasl_users must be given"),
        ({"sasl_enabled_mechanisms": "GSSAPI"}, "some of PLAIN, SCRAM-SHA-256"),
        ({"sasl_enabled_mechanisms": ""}, "some of PLAIN"),
        ({"ssl_client_auth": "perhaps"}, "one of required, requested, none"),
        ({"sasl_users": "alice:secret"}, "a dict"),
    ],
)
def test_invalid_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        ClusterSettings(**options)


@pytest.mark.parametrize("kind", [Cluster, ClusterProcess], ids=["thread", "process"])
def test_clients_are_told_the_addresses_of_their_listener(kind: Any, connect: Connect) -> None:
    settings: dict[str, Any] = {
        "listeners": TWO,
        "listener_security_protocol_map": MAP,
        "advertised_listeners": "OUTSIDE://localhost:0",
    }
    with kind(nodes=2, **settings) as cluster:
        cluster.create_topic("t", replication_factor=2)
        addresses = {
            "PLAINTEXT": cluster.bootstrap_servers.split(","),
            "OUTSIDE": cluster.bootstrap_servers_of("outside").split(","),
        }
        assert all(each.startswith("127.0.0.1:") for each in addresses["PLAINTEXT"])
        assert all(each.startswith("localhost:") for each in addresses["OUTSIDE"])
        assert len({each for found in addresses.values() for each in found}) == 4
        for expected in addresses.values():
            client = connect(expected[0])
            assert _shown(client.call("Metadata", 9, topics=[]).brokers) == expected
            described = client.call(
                "DescribeCluster",
                1,
                include_cluster_authorized_operations=False,
                endpoint_type=1,
            )
            assert _shown(described.brokers) == expected
            found = client.call("FindCoordinator", 3, key="g", key_type=0)
            assert f"{found.host}:{found.port}" == expected[found.node_id]
            leader = cluster.describe_topic("t")[0]["leader"]
            produced = connect(expected[1 - leader]).call(
                "Produce",
                10,
                transactional_id=None,
                acks=1,
                timeout_ms=1_000,
                topic_data=[{"name": "t", "partition_data": [{"index": 0, "records": b""}]}],
            )
            assert _shown(produced.node_endpoints) == [expected[leader]]
        with pytest.raises(InvalidArgumentError, match="one of PLAINTEXT, OUTSIDE"):
            cluster.bootstrap_servers_of("other")


def _shown(brokers: Any) -> list[str]:
    return [f"{each.host}:{each.port}" for each in brokers]


def test_ports_stay_over_a_restart_and_a_reset(connect: Connect) -> None:
    with Cluster(listeners=TWO, listener_security_protocol_map=MAP) as cluster:
        before = cluster.bootstrap_servers, cluster.bootstrap_servers_of("OUTSIDE")
        cluster.kill(0)
        cluster.restart(0)
        cluster.reset()
        for address in before:
            assert connect(address).call("Metadata", 9, topics=[]).brokers
        assert before == (cluster.bootstrap_servers, cluster.bootstrap_servers_of("OUTSIDE"))


def test_port_in_use_leaves_nothing_behind() -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        used = taken.getsockname()[1]
        listeners = f"PLAINTEXT://127.0.0.1:{port},OUTSIDE://127.0.0.1:{used}"
        cluster = Cluster(listeners=listeners, listener_security_protocol_map=MAP)
        with pytest.raises(OSError, match="in use"):
            cluster.start()
    socket.create_server(("127.0.0.1", port)).close()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1"])
def test_loopback_needs_no_warning(host: str, caplog: pytest.LogCaptureFixture) -> None:
    warn_if_reachable(ClusterSettings(host=host))
    assert not caplog.records


def test_warning_says_what_each_listener_protects(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    protocols = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    listeners = [f"{name}://10.0.0.1:{port}" for port, name in enumerate(protocols, 1)]
    settings: dict[str, Any] = {
        "listeners": ",".join([*listeners, "LOCAL://127.0.0.1:9"]),
        "listener_security_protocol_map": ",".join(
            [
                *(f"{each}:{each}" for each in protocols),
                "LOCAL:PLAINTEXT",
            ]
        ),
        "ssl_keystore_location": certificates.broker,
        "ssl_truststore_location": certificates.authority,
        "sasl_users": {"alice": "secret"},
    }
    warn_if_reachable(ClusterSettings(**settings))
    warn_if_reachable(ClusterSettings(**settings, ssl_client_auth="required"))
    first, second = (each.getMessage() for each in caplog.records)
    assert [each.levelno for each in caplog.records] == [logging.WARNING] * 2
    assert "LOCAL" not in first
    assert "PLAINTEXT on 10.0.0.1:1 is not encrypted, and clients are not authenticated;" in first
    assert "SSL on 10.0.0.1:2 is encrypted, and clients are not authenticated;" in first
    assert "SSL on 10.0.0.1:2 is encrypted, and clients need a certificate;" in second
    assert "SASL_PLAINTEXT on 10.0.0.1:3 is not encrypted, and clients log in with" in first
    assert "SASL_SSL on 10.0.0.1:4 is encrypted, and clients log in with a password" in first
    assert "no ACLs" in first


def test_warning_says_what_an_authorizer_allows(caplog: pytest.LogCaptureFixture) -> None:
    warn_if_reachable(
        ClusterSettings(
            listeners="SASL_PLAINTEXT://10.0.0.1:1",
            sasl_enabled_mechanisms="OAUTHBEARER",
            authorizer=True,
        )
    )
    (warning,) = (each.getMessage() for each in caplog.records)
    assert "clients log in as anybody, with a token that nobody has signed;" in warning
    assert warning.endswith("every client that connects may do what ACLs allow it")


def test_settings_of_listeners_are_described(certificates: Certificates, connect: Connect) -> None:
    """Passwords are not, as in Kafka."""
    listeners = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
    with Cluster(
        listeners=listeners, sasl_users={"alice": "hush"}, ssl_key_password="hush"
    ) as cluster:
        answer = connect(cluster.bootstrap_servers).call(
            "DescribeConfigs",
            4,
            resources=[{"resource_type": 4, "resource_name": "0", "configuration_keys": None}],
            include_synonyms=False,
            include_documentation=False,
        )
    configs = {each.name: each for each in answer.results[0].configs}
    assert configs["listeners"].value == listeners
    password = configs["ssl.key.password"]
    assert (password.value, password.is_sensitive, password.config_type) == (None, True, 9)
    assert "hush" not in repr(answer)
