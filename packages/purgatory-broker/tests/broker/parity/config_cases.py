"""DescribeConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness

_TOPIC, _BROKER = 2, 4
_TOPIC_CONFIG = 1


def _configs(
    harness: CaseHarness,
    kind: int,
    name: str,
    keys: list[str] | None,
    *,
    version: int = 4,
    synonyms: bool = False,
) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    answer = harness.node_0.call(
        "DescribeConfigs",
        version,
        resources=[resource],
        include_synonyms=synonyms,
        include_documentation=False,
    )
    return answer.results[0]


@case
def describe_configs_of_a_topic(harness: CaseHarness) -> Any:
    topic = harness.topic(configs={"retention.ms": "1000"})
    keys = [
        "retention.ms",
        "cleanup.policy",
        "min.insync.replicas",
        "max.message.bytes",
        "message.timestamp.type",
        "no.such.setting",
    ]
    seen = {
        version: _configs(harness, _TOPIC, topic, keys, version=version) for version in (1, 2, 3, 4)
    }
    all_names = {each.name for each in _configs(harness, _TOPIC, topic, None).configs}
    return seen | {
        "all are there": set(keys[:-1]) <= all_names,
        "no keys": len(_configs(harness, _TOPIC, topic, []).configs) in (0, len(all_names)),
    }


@case
def describe_configs_with_synonyms(harness: CaseHarness) -> Any:
    topic = harness.topic(configs={"max.message.bytes": "1000"})
    return _configs(harness, _TOPIC, topic, ["max.message.bytes"], synonyms=True)


@case
def describe_configs_of_unknown_resources(harness: CaseHarness) -> Any:
    wanted = {
        "topic": (_TOPIC, harness.name("none")),
        "odd topic": (_TOPIC, "a/b"),
        "empty topic": (_TOPIC, ""),
        "another broker": (_BROKER, "1"),
        "unknown broker": (_BROKER, "9"),
        "no number": (_BROKER, "zero"),
        "unknown type": (77, "x"),
    }
    return {
        name: _configs(harness, kind, resource, ["no.such.setting"])
        for name, (kind, resource) in wanted.items()
    }


@case
def describe_configs_of_a_broker(harness: CaseHarness) -> Any:
    keys = ["offsets.topic.num.partitions", "group.min.session.timeout.ms", "no.such.setting"]
    return {
        "own": _configs(harness, _BROKER, "0", keys),
        "all brokers": _configs(harness, _BROKER, "", keys),
    }


@case
def alter_configs_of_a_topic(harness: CaseHarness) -> Any:
    topic = harness.topic(configs={"retention.ms": "1000"})

    def alter(
        operation: int,
        name: str,
        value: str | None,
        *,
        resource: str = topic,
        validate_only: bool = False,
    ) -> Any:
        config = {"name": name, "config_operation": operation, "value": value}
        resources = [{"resource_type": _TOPIC, "resource_name": resource, "configs": [config]}]
        return harness.node_0.call(
            "IncrementalAlterConfigs", 1, resources=resources, validate_only=validate_only
        ).responses

    def value_is(value: str) -> Any:
        return harness.until(
            lambda: _configs(harness, _TOPIC, topic, ["retention.ms"]).configs[0].value == value
        )

    set_, delete, append = 0, 1, 2
    seen = {
        "validated": alter(set_, "retention.ms", "5000", validate_only=True),
        "set": alter(set_, "retention.ms", "2000"),
    }
    seen["is set"] = value_is("2000")
    seen["deleted"] = alter(delete, "retention.ms", None)
    seen["is deleted"] = harness.until(
        lambda: (
            _configs(harness, _TOPIC, topic, ["retention.ms"]).configs[0].config_source
            != _TOPIC_CONFIG
        )
    )
    return seen | {
        "unknown setting": alter(set_, "no.such.setting", "1"),
        "no number": alter(set_, "retention.ms", "soon"),
        "no list": alter(append, "retention.ms", "1"),
        "list": alter(append, "cleanup.policy", "compact"),
        "unknown topic": alter(set_, "retention.ms", "1000", resource=harness.name("none")),
        "unknown operation": alter(9, "retention.ms", "1000"),
    }
