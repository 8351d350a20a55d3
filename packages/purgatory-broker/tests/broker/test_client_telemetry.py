"""Clients that push metrics: how long they are known, and what they push."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from purgatory_broker import Cluster
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.broker_configs import ResourceValues
from purgatory_broker.metadata.client_telemetry import MAX_CLIENTS, ClientTelemetry
from purgatory_broker.metadata.topic_configs import ResourceType
from purgatory_broker.metadata.topics import ControllerError
from tests.broker.conftest import Connect

ALICE = UUID(int=1_000)
INTERVAL_MS = 1_000


def subscription(**configs: str) -> ResourceValues:
    values = {name.replace("_", "."): value for name, value in configs.items()}
    return {(ResourceType.CLIENT_METRICS, "all"): {"interval.ms": str(INTERVAL_MS)} | values}


CONFIGS = subscription(metrics="*")


def ask(
    clients: ClientTelemetry, now_ms: int, client: UUID = ALICE, configs: ResourceValues = CONFIGS
) -> int:
    """Return the id of a client's subscription, or -1 if it asks too early."""
    try:
        return clients.ask(client, {"client_id": "alice"}, configs, now_ms)[0]
    except ControllerError as error:
        if error.code is not ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            raise
        return -1


def push(clients: ClientTelemetry, now_ms: int, subscription_id: int, **given: Any) -> ErrorCode:
    """Push metrics of alice, and return the error."""
    push = {"is_terminating": False, "codec": 0, "metrics": b""} | given
    attributes = {"client_id": "alice"}
    try:
        clients.push(ALICE, attributes, CONFIGS, now_ms, subscription_id=subscription_id, **push)
    except ControllerError as error:
        return error.code
    return ErrorCode.NONE


def test_client_pushes_once_in_an_interval() -> None:
    clients = ClientTelemetry()
    subscription_id = ask(clients, 1)
    assert push(clients, 2, subscription_id) is ErrorCode.NONE
    assert push(clients, INTERVAL_MS + 1, subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(clients, INTERVAL_MS + 2, subscription_id) is ErrorCode.NONE
    assert ask(clients, 2 * INTERVAL_MS + 1) == -1
    assert ask(clients, 2 * INTERVAL_MS + 2) == subscription_id


def test_last_push_may_come_at_any_time() -> None:
    clients = ClientTelemetry()
    subscription_id = ask(clients, 1)
    assert push(clients, 2, subscription_id) is ErrorCode.NONE
    assert push(clients, 3, subscription_id, is_terminating=True) is ErrorCode.NONE
    assert push(clients, 10 * INTERVAL_MS, subscription_id) is ErrorCode.INVALID_REQUEST


def test_changed_subscription_is_told_at_once() -> None:
    clients = ClientTelemetry()
    before = ask(clients, 1)
    after = ask(clients, 2, configs=subscription(metrics="a"))
    assert after not in (-1, before)


def test_idle_client_is_forgotten() -> None:
    clients = ClientTelemetry()
    subscription_id = ask(clients, 1)
    assert push(clients, 2, subscription_id, is_terminating=True) is ErrorCode.NONE
    assert push(clients, 60_001, subscription_id) is ErrorCode.INVALID_REQUEST
    assert push(clients, 120_001, subscription_id) is ErrorCode.NONE


def test_oldest_client_is_forgotten_if_there_are_many() -> None:
    clients = ClientTelemetry()
    ask(clients, 1)
    for number in range(MAX_CLIENTS - 1):
        ask(clients, 2, UUID(int=2_000 + number))
    assert ask(clients, 3) == -1
    ask(clients, 3, UUID(int=1))
    ask(clients, 3, UUID(int=2))
    assert ask(clients, 3) == -1
    assert ask(clients, 3, UUID(int=2_000)) != -1


def subscribe(cluster: Cluster, connect: Connect, interval_ms: int) -> None:
    values = {"metrics": "*", "interval.ms": str(interval_ms)}
    configs = [
        {"name": name, "config_operation": 0, "value": value} for name, value in values.items()
    ]
    resource = {"resource_type": 16, "resource_name": "all", "configs": configs}
    answer = connect(cluster.bootstrap_servers).call(
        "IncrementalAlterConfigs", 1, resources=[resource], validate_only=False
    )
    assert answer.responses[0].error_code == 0


def test_apis_are_advertised_while_there_is_a_subscription(connect: Connect) -> None:
    def advertised() -> set[int]:
        answer = connect(cluster.bootstrap_servers).call("ApiVersions", 0)
        return {api.api_key for api in answer.api_keys}

    with Cluster() as cluster:
        assert not {71, 72} & advertised()
        subscribe(cluster, connect, 60_000)
        assert {71, 72} <= advertised()
        cluster.reset()
        assert not {71, 72} & advertised()


def test_librdkafka_pushes_its_metrics(connect: Connect) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    with Cluster() as cluster:
        subscribe(cluster, connect, 100)
        cluster.create_topic("orders")
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce("orders", b"x")
        producer.flush(30)
        cluster.wait_for(request=("PushTelemetry", 1), timeout=30)
        (pushed, *_) = cluster.requests(api="PushTelemetry")
    assert pushed.request["metrics"]
