"""Settings of brokers that clients change at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.admin import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)

from tests.broker.parity.batches import batch
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import RawClient, message

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_TOPIC, _BROKER = 2, 4
_MAX_BYTES, _TOPIC_MAX_BYTES = "message.max.bytes", "max.message.bytes"

#: A Kafka with eligible leader replicas has a value of this for all brokers, which always stays.
_ALWAYS = {"min.insync.replicas": "1"}

_Change = tuple[int, str, str | None]


def _alter(client: RawClient, name: str, *changes: _Change, validate_only: bool = False) -> int:
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for operation, key, value in changes
    ]
    fields = {
        "resources": [{"resource_type": _BROKER, "resource_name": name, "configs": configs}],
        "validate_only": validate_only,
    }
    answer = client.send(message(IncrementalAlterConfigsRequest, fields), 1)
    return int(answer.responses[0].error_code)


def _replace(client: RawClient, name: str, configs: Mapping[str, str]) -> int:
    given = [{"name": key, "value": value} for key, value in configs.items()]
    fields = {
        "resources": [{"resource_type": _BROKER, "resource_name": name, "configs": given}],
        "validate_only": False,
    }
    answer = client.send(message(AlterConfigsRequest, fields), 2)
    return int(answer.responses[0].error_code)


def _describe(client: RawClient, kind: int, name: str, *keys: str) -> dict[str, Any]:
    """Return by name: value, source, whether it is read-only, type, and synonyms."""
    fields = {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)}
        ],
        "include_synonyms": True,
        "include_documentation": False,
    }
    result = client.send(message(DescribeConfigsRequest, fields), 4).results[0]
    assert result.error_code == 0, result
    return {
        each.name: [
            each.value,
            each.config_source,
            each.read_only,
            each.config_type,
            [[one.name, one.value, one.source] for one in each.synonyms],
        ]
        for each in result.configs
    }


def _value(client: RawClient, kind: int, name: str, key: str) -> Any:
    return _describe(client, kind, name, key).get(key, [None])[0]


def _clean(harness: CaseHarness) -> None:
    """Remove all changes, and wait until the node knows."""
    client = harness.node_0
    assert [_replace(client, "0", {}), _replace(client, "", _ALWAYS)] == [0, 0]
    harness.until(lambda: _describe(client, _BROKER, "").keys() <= _ALWAYS.keys())


@case
def dynamic_configs_that_are_allowed(harness: CaseHarness) -> Any:
    values = {
        "log.retention.ms": ["1000", "-1", "-2", "0", "soon"],
        "log.retention.bytes": ["1000", "-1"],
        "log.segment.bytes": ["1048576", "1000", "0"],
        "message.max.bytes": ["0", "1000", "-1", "1.5", ""],
        "min.insync.replicas": ["1", "0"],
        "unclean.leader.election.enable": ["true", "TRUE", "yes"],
        "max.connections": ["10", "0", "-1"],
        "producer.id.expiration.ms": ["1000", "0"],
        "compression.type": ["gzip", "none", "brotli"],
        "log.cleanup.policy": ["compact", "delete,compact", "keep"],
        "log.message.timestamp.type": ["LogAppendTime", "Never"],
        "log.message.timestamp.before.max.ms": ["1000", "-1"],
        "log.message.timestamp.after.max.ms": ["1000"],
        "log.flush.interval.messages": ["1", "0"],
        "log.roll.ms": ["1000", "0"],
        "log.preallocate": ["true"],
        "num.partitions": ["3"],
        "default.replication.factor": ["2"],
        "auto.create.topics.enable": ["false"],
        "connections.max.idle.ms": ["1000"],
        "offsets.commit.timeout.ms": ["1000"],
        "group.max.session.timeout.ms": ["1000"],
        "transaction.max.timeout.ms": ["1000"],
        "replica.lag.time.max.ms": ["1000"],
        "log.retention.check.interval.ms": ["1000"],
        "log.dirs": ["/tmp"],
        "broker.id": ["5"],
        "listeners": ["PLAINTEXT://:9092"],
        "sasl.enabled.mechanisms": ["PLAIN"],
        "ssl.keystore.location": ["/tmp/none"],
        "sasl.kerberos.min.time.before.relogin": ["58000", "soon"],
    }
    seen = {}
    for key, given in values.items():
        for value in given:
            # Those of one node alone can have an effect on it.
            names = [""] if key in ("listeners", "sasl.enabled.mechanisms") else ["0", ""]
            seen[f"{key}={value}"] = [
                _alter(harness.node_0, name, (_SET, key, value), validate_only=True)
                for name in names
            ]
    return seen


@case
def dynamic_configs_of_one_and_of_all(harness: CaseHarness) -> Any:
    topic = harness.topic()
    own = harness.topic("own", configs={_TOPIC_MAX_BYTES: "2000"})
    node_0, node_1 = harness.node_0, harness.connect(harness.addresses()[1])
    seen: dict[str, Any] = {}

    def look(label: str, value_0: str, value_1: str) -> None:
        harness.until(lambda: _value(node_0, _BROKER, "0", _MAX_BYTES) == value_0)
        harness.until(lambda: _value(node_1, _BROKER, "1", _MAX_BYTES) == value_1)
        seen[label] = {
            "node 0": _describe(node_0, _BROKER, "0", _MAX_BYTES),
            "node 1": _describe(node_1, _BROKER, "1", _MAX_BYTES),
            "all": _describe(node_0, _BROKER, "", _MAX_BYTES),
            "topic at node 0": _describe(node_0, _TOPIC, topic, _TOPIC_MAX_BYTES),
            "topic at node 1": _describe(node_1, _TOPIC, topic, _TOPIC_MAX_BYTES),
            "topic with its own": _describe(node_0, _TOPIC, own, _TOPIC_MAX_BYTES),
        }

    default = _value(node_0, _BROKER, "0", _MAX_BYTES)
    try:
        look("before", default, default)
        assert _alter(node_0, "", (_SET, _MAX_BYTES, "3000")) == 0
        look("of all", "3000", "3000")
        assert _alter(node_0, "0", (_SET, _MAX_BYTES, "4000")) == 0
        look("of one, too", "4000", "3000")
        assert _replace(node_0, "", _ALWAYS | {"log.retention.bytes": "1000000"}) == 0
        look("of one", "4000", default)
        seen["retention"] = _describe(node_0, _TOPIC, topic, "retention.bytes")
        seen["odd node"] = _alter(node_0, "1", (_SET, _MAX_BYTES, "4000"))
        assert _replace(node_0, "0", {}) == 0
        look("after", default, default)
    finally:
        _clean(harness)
    return seen


@case
def dynamic_configs_of_lists(harness: CaseHarness) -> Any:
    key = "log.cleanup.policy"
    client = harness.node_0
    seen: dict[str, Any] = {}
    try:
        seen["appended"] = _alter(client, "", (_APPEND, key, "compact"))
        harness.until(lambda: _value(client, _BROKER, "", key) is not None)
        seen["value"] = _value(client, _BROKER, "", key)
        seen["subtracted"] = _alter(client, "", (_SUBTRACT, key, "delete"))
        harness.until(lambda: _value(client, _BROKER, "", key) == "compact")
        seen["number"] = _alter(client, "", (_APPEND, _MAX_BYTES, "5"), validate_only=True)
    finally:
        _clean(harness)
    return seen


@case
def dynamic_configs_have_an_effect(harness: CaseHarness) -> Any:
    """Produce a batch that is too large, on topics with and without a limit of their own."""
    topic = harness.topic(nodes=[[0]])
    own = harness.topic("own", nodes=[[0]], configs={_TOPIC_MAX_BYTES: "2000"})
    client = harness.leader(topic)

    def produced(name: str) -> int:
        return int(harness.produce(client, name, batch(b"x" * 500)).error_code)

    seen: dict[str, Any] = {"before": [produced(topic), produced(own)]}
    try:
        _alter(client, "", (_SET, _MAX_BYTES, "300"))
        harness.until(lambda: produced(topic) != 0)
        seen["of all"] = [produced(topic), produced(own)]
        _alter(client, "0", (_SET, _MAX_BYTES, "1000"))
        harness.until(lambda: produced(topic) == 0)
        seen["of one"] = [produced(topic), produced(own)]
        new = harness.topic("new", nodes=[[1]])
        seen["another node"] = int(
            harness.produce(harness.leader(new), new, batch(b"x" * 500)).error_code
        )
    finally:
        _clean(harness)
    return seen
