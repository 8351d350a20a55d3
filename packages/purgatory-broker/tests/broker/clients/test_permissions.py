"""Clients that store ACLs, and what ACLs allow them; clients that log in with tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from purgatory_broker import Cluster
from tests.broker.clients.waiting import TIME_LIMIT
from tests.broker.kafka_server import run_tool

ALICE, PASSWORD = "alice", "secret"


@pytest.fixture(scope="module")
def authorized() -> Iterator[Cluster]:
    """Run a cluster of two nodes with an authorizer; who does not log in is a super user."""
    with Cluster(
        nodes=2,
        listeners="PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        sasl_users={ALICE: PASSWORD},
        sasl_enabled_mechanisms="PLAIN,OAUTHBEARER",
        authorizer=True,
        super_users="User:ANONYMOUS",
    ) as cluster:
        yield cluster


def _as_alice(cluster: Cluster) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers_of("SASL_PLAINTEXT").split(","),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": ALICE,
        "sasl_plain_password": PASSWORD,
    }


def _acl(kind: ResourceType, name: str, operation: ACLOperation) -> ACL:
    return ACL(
        f"User:{ALICE}",
        "*",
        operation,
        ACLPermissionType.ALLOW,
        ResourcePattern(kind, name, ACLResourcePatternType.LITERAL),
    )


def test_kafka_python_is_allowed_what_its_acls_allow(authorized: Cluster, topic: str) -> None:
    authorized.create_topic(topic)
    admin = KafkaAdminClient(bootstrap_servers=authorized.bootstrap_servers.split(","))
    producer = KafkaProducer(**_as_alice(authorized), enable_idempotence=False)
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send(topic, b"refused").get(TIME_LIMIT)
    granted = [
        _acl(ResourceType.TOPIC, topic, ACLOperation.READ),
        _acl(ResourceType.TOPIC, topic, ACLOperation.WRITE),
    ]
    assert admin.create_acls(granted)["failed"] == []
    producer.send(topic, b"allowed").get(TIME_LIMIT)
    producer.close()
    assert [record.value for record in authorized.records(topic)] == [b"allowed"]

    def consumed() -> list[Any]:
        consumer = KafkaConsumer(
            topic, group_id=topic, auto_offset_reset="earliest", **_as_alice(authorized)
        )
        try:
            found = consumer.poll(TIME_LIMIT * 1_000)
        finally:
            consumer.close()
        return [record.value for records in found.values() for record in records]

    with pytest.raises(GroupAuthorizationFailedError):
        consumed()
    admin.create_acls([_acl(ResourceType.GROUP, topic, ACLOperation.READ)])
    assert consumed() == [b"allowed"]
    pattern = ResourcePatternFilter(ResourceType.ANY, topic, ACLResourcePatternType.ANY)
    wanted = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)
    described, _ = admin.describe_acls(wanted)
    assert len(described) == 3
    ((_, deleted, _),) = admin.delete_acls([wanted])
    assert len(deleted) == 3
    assert admin.describe_acls(wanted)[0] == []
    admin.close()


def test_confluent_kafka_stores_and_deletes_acls(authorized: Cluster, topic: str) -> None:
    admins = pytest.importorskip("confluent_kafka.admin")
    admin = admins.AdminClient({"bootstrap.servers": authorized.bootstrap_servers})
    allow = admins.AclPermissionType.ALLOW
    literal, prefixed = admins.ResourcePatternType.LITERAL, admins.ResourcePatternType.PREFIXED
    bindings = [
        admins.AclBinding(
            admins.ResourceType.TOPIC, topic, pattern, f"User:{ALICE}", "*", operation, allow
        )
        for pattern in (literal, prefixed)
        for operation in (admins.AclOperation.READ, admins.AclOperation.ALL)
    ]
    for future in admin.create_acls(bindings).values():
        assert future.result(TIME_LIMIT) is None
    matching = admins.AclBindingFilter(
        admins.ResourceType.ANY,
        topic + "-1",
        admins.ResourcePatternType.MATCH,
        None,
        None,
        admins.AclOperation.ANY,
        admins.AclPermissionType.ANY,
    )
    found = admin.describe_acls(matching).result(TIME_LIMIT)
    assert {each.resource_pattern_type for each in found} == {prefixed}
    assert len(found) == 2
    (deleted,) = admin.delete_acls([matching]).values()
    assert len(deleted.result(TIME_LIMIT)) == 2


def test_confluent_kafka_logs_in_with_a_token(authorized: Cluster, topic: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    authorized.create_topic(topic)
    admin = KafkaAdminClient(bootstrap_servers=authorized.bootstrap_servers.split(","))
    admin.create_acls([_acl(ResourceType.TOPIC, topic, ACLOperation.WRITE)])
    admin.close()

    def delivered(user: str) -> Any:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": authorized.bootstrap_servers_of("SASL_PLAINTEXT"),
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "enable.sasl.oauthbearer.unsecure.jwt": True,
                "sasl.oauthbearer.config": f"principal={user}",
                "log_level": 0,
            }
        )
        reports: list[Any] = []
        producer.produce(topic, user, on_delivery=lambda error, _: reports.append(error))
        producer.flush(TIME_LIMIT)
        return reports[0]

    assert delivered("bob").code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert delivered(ALICE) is None
    assert [record.value for record in authorized.records(topic)] == [ALICE.encode()]


@pytest.mark.jvm
def test_javas_tool_stores_and_deletes_acls(authorized: Cluster, tools: Path, topic: str) -> None:
    def run(*arguments: str) -> str:
        servers = ("--bootstrap-server", authorized.bootstrap_servers)
        ran = run_tool(tools, "AclCommand", *servers, *arguments)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    resource = ("--topic", topic)
    principal = ("--allow-principal", f"User:{ALICE}")
    run("--add", *principal, "--producer", *resource, "--resource-pattern-type", "prefixed")
    run("--add", "--deny-principal", "User:bob", "--operation", "read", *resource)
    listed = run("--list", *resource, "--resource-pattern-type", "match")
    rules = re.findall(
        r"principal=User:(\w+), host=\*, operation=(\w+), permissionType=(\w+)", listed
    )
    assert sorted(rules) == [
        ("alice", "CREATE", "ALLOW"),
        ("alice", "DESCRIBE", "ALLOW"),
        ("alice", "WRITE", "ALLOW"),
        ("bob", "READ", "DENY"),
    ]
    run("--remove", "--force", *resource, "--resource-pattern-type", "match")
    assert "principal" not in run("--list", *resource, "--resource-pattern-type", "match")
