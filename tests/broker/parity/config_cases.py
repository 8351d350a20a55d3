"""The settings of topics and brokers."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.case import case
from tests.broker.parity.scene import Scene

_TOPIC, _BROKER = 2, 4
_TOPIC_CONFIG = 1


def _configs(
    scene: Scene,
    kind: int,
    name: str,
    keys: list[str] | None,
    *,
    version: int = 4,
    synonyms: bool = False,
) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    answer = scene.any.call(
        "DescribeConfigs",
        version,
        resources=[resource],
        include_synonyms=synonyms,
        include_documentation=False,
    )
    return answer.results[0]


@case
def describe_configs_of_a_topic(scene: Scene) -> Any:
    topic = scene.topic(configs={"retention.ms": "1000"})
    keys = [
        "retention.ms",
        "cleanup.policy",
        "min.insync.replicas",
        "max.message.bytes",
        "message.timestamp.type",
        "no.such.setting",
    ]
    seen = {
        version: _configs(scene, _TOPIC, topic, keys, version=version) for version in (1, 2, 3, 4)
    }
    all_names = {each.name for each in _configs(scene, _TOPIC, topic, None).configs}
    return seen | {
        "all are there": set(keys[:-1]) <= all_names,
        "no keys": len(_configs(scene, _TOPIC, topic, []).configs) in (0, len(all_names)),
    }


@case
def describe_configs_with_synonyms(scene: Scene) -> Any:
    topic = scene.topic(configs={"max.message.bytes": "1000"})
    return _configs(scene, _TOPIC, topic, ["max.message.bytes"], synonyms=True)


@case
def describe_configs_of_unknown_things(scene: Scene) -> Any:
    wanted = {
        "topic": (_TOPIC, scene.name("none")),
        "odd topic": (_TOPIC, "a/b"),
        "empty topic": (_TOPIC, ""),
        "another broker": (_BROKER, "1"),
        "unknown broker": (_BROKER, "9"),
        "no number": (_BROKER, "zero"),
        "unknown type": (77, "x"),
    }
    return {
        name: _configs(scene, kind, resource, ["no.such.setting"])
        for name, (kind, resource) in wanted.items()
    }


@case
def describe_configs_of_a_broker(scene: Scene) -> Any:
    keys = ["offsets.topic.num.partitions", "group.min.session.timeout.ms", "no.such.setting"]
    return {
        "own": _configs(scene, _BROKER, "0", keys),
        "all brokers": _configs(scene, _BROKER, "", keys),
    }


@case
def alter_configs_of_a_topic(scene: Scene) -> Any:
    topic = scene.topic(configs={"retention.ms": "1000"})

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
        return scene.any.call(
            "IncrementalAlterConfigs", 1, resources=resources, validate_only=validate_only
        ).responses

    def value_is(value: str) -> Any:
        return scene.until(
            lambda: _configs(scene, _TOPIC, topic, ["retention.ms"]).configs[0].value == value
        )

    set_, delete, append = 0, 1, 2
    seen = {
        "validated": alter(set_, "retention.ms", "5000", validate_only=True),
        "set": alter(set_, "retention.ms", "2000"),
    }
    seen["is set"] = value_is("2000")
    seen["deleted"] = alter(delete, "retention.ms", None)
    seen["is deleted"] = scene.until(
        lambda: (
            _configs(scene, _TOPIC, topic, ["retention.ms"]).configs[0].config_source
            != _TOPIC_CONFIG
        )
    )
    return seen | {
        "unknown setting": alter(set_, "no.such.setting", "1"),
        "no number": alter(set_, "retention.ms", "soon"),
        "no list": alter(append, "retention.ms", "1"),
        "list": alter(append, "cleanup.policy", "compact"),
        "unknown topic": alter(set_, "retention.ms", "1000", resource=scene.name("none")),
        "unknown operation": alter(9, "retention.ms", "1000"),
    }
