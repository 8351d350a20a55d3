"""Clients that log in, and that connect by TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError

from purgatory_broker import Cluster
from tests.broker.certificates import Certificates
from tests.broker.clients.waiting import TIME_LIMIT
from tests.broker.kafka_server import broker_libraries, run_tool

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
#: Every protocol with every mechanism that it has.
COMBINATIONS = [
    (protocol, mechanism)
    for protocol in PROTOCOLS
    for mechanism in (MECHANISMS if protocol.startswith("SASL") else (None,))
]
USER, PASSWORD = "alice", "sécret"
#: SCRAM escapes the comma and the equals sign; kafka-python and aiokafka do not.
ODD_USER = "b, c=d"

#: Sends a message to a topic: the cluster, the certificates, protocol, mechanism, password, topic.
Send = Callable[[Cluster, Certificates, str, str | None, str, str], None]


class LoginRefusedError(Exception):
    """The broker has refused the login."""


@pytest.fixture(scope="module")
def secured(certificates: Certificates) -> Iterator[Cluster]:
    """Run a cluster of two nodes with a listener of each protocol."""
    listeners = ",".join(f"{protocol}://127.0.0.1:0" for protocol in PROTOCOLS)
    with Cluster(
        nodes=2,
        listeners=listeners,
        ssl_keystore_location=certificates.broker,
        ssl_truststore_location=certificates.authority,
        sasl_users={USER: PASSWORD, ODD_USER: PASSWORD},
    ) as cluster:
        yield cluster


def send_by_confluent_kafka(
    cluster: Cluster,
    certificates: Certificates,
    protocol: str,
    mechanism: str | None,
    password: str,
    topic: str,
) -> None:
    """Send a message with librdkafka's client, and read it again."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    config = confluent_config(cluster, certificates, protocol, mechanism, password)
    refused: list[Any] = []

    def note(error: Any) -> None:
        if error.code() == confluent_kafka.KafkaError._AUTHENTICATION:
            refused.append(error)

    producer = confluent_kafka.Producer(config | {"error_cb": note, "log_level": 0})
    producer.produce(topic, b"x")
    while producer.flush(0.05):
        if refused:
            producer.purge()
            raise LoginRefusedError(refused[0])
    consumer = confluent_kafka.Consumer(
        config | {"group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    message = consumer.poll(TIME_LIMIT)
    assert message.value() == b"x"
    consumer.close()


def confluent_config(
    cluster: Cluster,
    certificates: Certificates,
    protocol: str,
    mechanism: str | None,
    password: str = PASSWORD,
) -> dict[str, Any]:
    """Return the configuration of a librdkafka client."""
    config = {
        "bootstrap.servers": cluster.bootstrap_servers_of(protocol),
        "security.protocol": protocol,
    }
    if protocol.endswith("SSL"):
        config["ssl.ca.location"] = str(certificates.authority)
    if mechanism is not None:
        config |= {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": password}
    return config


def python_config(
    cluster: Cluster,
    certificates: Certificates,
    protocol: str,
    mechanism: str | None,
    password: str,
) -> dict[str, Any]:
    """Return the options of the clients in Python."""
    config: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers_of(protocol).split(","),
        "security_protocol": protocol,
    }
    if protocol.endswith("SSL"):
        config["ssl_context"] = ssl.create_default_context(cafile=certificates.authority)
    if mechanism is not None:
        config |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": USER,
            "sasl_plain_password": password,
        }
    return config


def send_by_kafka_python(
    cluster: Cluster,
    certificates: Certificates,
    protocol: str,
    mechanism: str | None,
    password: str,
    topic: str,
) -> None:
    """Send a message with kafka-python."""
    config = python_config(cluster, certificates, protocol, mechanism, password)
    if password != PASSWORD:
        # It tries again until then.
        config["bootstrap_timeout_ms"] = 2_000
    try:
        producer = KafkaProducer(**config)
        try:
            producer.send(topic, b"x").get(TIME_LIMIT)
        finally:
            producer.close(0)
    except KafkaError as error:
        raise LoginRefusedError(error) from error


def send_by_aiokafka(
    cluster: Cluster,
    certificates: Certificates,
    protocol: str,
    mechanism: str | None,
    password: str,
    topic: str,
) -> None:
    """Send a message with aiokafka."""
    aiokafka = pytest.importorskip("aiokafka")
    config = python_config(cluster, certificates, protocol, mechanism, password)

    async def send() -> None:
        producer = aiokafka.AIOKafkaProducer(**config)
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"x")
        finally:
            await producer.stop()

    try:
        asyncio.run(asyncio.wait_for(send(), TIME_LIMIT))
    except aiokafka.errors.KafkaError as error:
        raise LoginRefusedError(error) from error


SENDERS: dict[str, Send] = {
    "confluent-kafka": send_by_confluent_kafka,
    "kafka-python": send_by_kafka_python,
    "aiokafka": send_by_aiokafka,
}
every_sender = pytest.mark.parametrize("send", SENDERS.values(), ids=SENDERS)


@every_sender
@pytest.mark.parametrize(("protocol", "mechanism"), COMBINATIONS)
def test_message_is_sent_by_each_protocol(
    secured: Cluster,
    certificates: Certificates,
    send: Send,
    protocol: str,
    mechanism: str | None,
    topic: str,
) -> None:
    secured.create_topic(topic)
    send(secured, certificates, protocol, mechanism, PASSWORD, topic)
    # Clients with acks=1 do not wait for the high watermark.
    secured.wait_for(records=(topic, 1), timeout=TIME_LIMIT)
    assert [each.value for each in secured.records(topic)] == [b"x"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_names_may_have_any_characters(
    secured: Cluster, certificates: Certificates, mechanism: str
) -> None:
    admins = pytest.importorskip("confluent_kafka.admin")
    config = confluent_config(secured, certificates, "SASL_PLAINTEXT", mechanism)
    admin = admins.AdminClient(config | {"sasl.username": ODD_USER})
    assert admin.list_topics(timeout=TIME_LIMIT).brokers


@every_sender
@pytest.mark.parametrize(
    "protocol", ["SASL_PLAINTEXT", pytest.param("SASL_SSL", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password_is_reported(
    secured: Cluster,
    certificates: Certificates,
    send: Send,
    protocol: str,
    mechanism: str,
    topic: str,
) -> None:
    secured.create_topic(topic)
    with pytest.raises(LoginRefusedError):
        send(secured, certificates, protocol, mechanism, "wrong", topic)
    assert secured.records(topic) == []


def test_admin_client_alters_scram_credentials(
    secured: Cluster, certificates: Certificates, topic: str
) -> None:
    admins = pytest.importorskip("confluent_kafka.admin")
    config = confluent_config(secured, certificates, "SASL_SSL", "PLAIN")
    admin = admins.AdminClient(config)
    mechanism = admins.ScramMechanism.SCRAM_SHA_512
    made = admins.UserScramCredentialUpsertion(
        "bob", admins.ScramCredentialInfo(mechanism, 8_192), b"bob's password"
    )
    admin.alter_user_scram_credentials([made])["bob"].result(TIME_LIMIT)
    described = admin.describe_user_scram_credentials().result(TIME_LIMIT)
    found = {
        user: [(each.mechanism.name, each.iterations) for each in one.scram_credential_infos]
        for user, one in described.items()
    }
    assert found == {
        USER: [("SCRAM_SHA_256", 4_096), ("SCRAM_SHA_512", 4_096)],
        ODD_USER: [("SCRAM_SHA_256", 4_096), ("SCRAM_SHA_512", 4_096)],
        "bob": [("SCRAM_SHA_512", 8_192)],
    }
    bobs = config | {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "bob",
        "sasl.password": "bob's password",
    }
    assert admins.AdminClient(bobs).list_topics(timeout=TIME_LIMIT).brokers
    gone = admins.UserScramCredentialDeletion("bob", mechanism)
    admin.alter_user_scram_credentials([gone])["bob"].result(TIME_LIMIT)
    left = admin.describe_user_scram_credentials([USER, "bob"])
    assert left[USER].result(TIME_LIMIT)
    with pytest.raises(Exception, match="does not exist"):
        left["bob"].result(TIME_LIMIT)


@pytest.mark.jvm
def test_javas_clients_log_in(
    secured: Cluster, certificates: Certificates, tools: Path, topic: str, tmp_path: Path
) -> None:
    servers = ("--bootstrap-server", secured.bootstrap_servers_of("PLAINTEXT"))
    made = run_tool(
        broker_libraries(),
        "kafka.admin.ConfigCommand",
        *(*servers, "--alter", "--entity-type", "users", "--entity-name", "carol"),
        *("--add-config", "SCRAM-SHA-256=[iterations=8192,password=carols-secret]"),
    )
    assert made.returncode == 0, made.stdout + made.stderr

    def run(name: str, option: str, password: str, *arguments: str) -> Any:
        config = tmp_path / "client.properties"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        config.write_text(
            f"""security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config={module} required username="carol" password="{password}";
ssl.truststore.type=PEM
ssl.truststore.location={certificates.authority}
"""
        )
        address = secured.bootstrap_servers_of("SASL_SSL")
        given = ("--bootstrap-server", address, "--topic", topic, option, str(config))
        return run_tool(tools, name, *given, *arguments, stdin=b"a\nb\n")

    secured.create_topic(topic)
    refused = run("TopicCommand", "--command-config", "wrong", "--describe")
    assert refused.returncode != 0
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in refused.stdout
    produced = run("ConsoleProducer", "--producer.config", "carols-secret")
    assert produced.returncode == 0, produced.stdout + produced.stderr
    limit = ("--max-messages", "2", "--timeout-ms", str(int(TIME_LIMIT * 1_000)))
    consumed = run(
        "ConsoleConsumer", "--consumer.config", "carols-secret", "--from-beginning", *limit
    )
    assert consumed.stdout.splitlines() == ["a", "b"], consumed.stderr


def test_admin_client_is_told_that_there_are_no_acls(
    secured: Cluster, certificates: Certificates
) -> None:
    """In Kafka's words, without an authorizer."""
    admins = pytest.importorskip("confluent_kafka.admin")
    admin = admins.AdminClient(confluent_config(secured, certificates, "PLAINTEXT", None))
    every = admins.AclBindingFilter(
        admins.ResourceType.ANY,
        None,
        admins.ResourcePatternType.ANY,
        None,
        None,
        admins.AclOperation.ANY,
        admins.AclPermissionType.ANY,
    )
    # This client does not show the error of a description.
    assert admin.describe_acls(every).result(TIME_LIMIT) == []
    answered = secured.requests(api="DescribeAcls")[-1].response
    assert answered["error_message"] == "No Authorizer is configured on the broker"
    acl = admins.AclBinding(
        admins.ResourceType.TOPIC,
        "orders",
        admins.ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        admins.AclOperation.READ,
        admins.AclPermissionType.ALLOW,
    )
    with pytest.raises(Exception, match="No Authorizer is configured"):
        admin.create_acls([acl])[acl].result(TIME_LIMIT)
    with pytest.raises(Exception, match="No Authorizer is configured"):
        admin.delete_acls([every])[every].result(TIME_LIMIT)
