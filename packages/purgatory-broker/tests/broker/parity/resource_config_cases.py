"""Configs of groups and brokers, and ListConfigResources."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)

from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import message

_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32
_SET, _DELETE, _APPEND = range(3)
_SESSION = "consumer.session.timeout.ms"
_RATE = "leader.replication.throttled.rate"


def _describe(
    harness: CaseHarness,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    synonyms: bool = False,
) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    fields = {
        "resources": [resource],
        "include_synonyms": synonyms,
        "include_documentation": False,
    }
    result = harness.node_0.send(message(DescribeConfigsRequest, fields), 4).results[0]
    return {
        "error_code": result.error_code,
        "configs": {each.name: each for each in sorted(result.configs, key=lambda each: each.name)},
    }


def _alter(
    harness: CaseHarness,
    kind: int,
    name: str,
    *changes: tuple[int, str, str | None],
    validate_only: bool = False,
) -> Any:
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for operation, key, value in changes
    ]
    fields = {
        "resources": [{"resource_type": kind, "resource_name": name, "configs": configs}],
        "validate_only": validate_only,
    }
    return harness.node_0.send(message(IncrementalAlterConfigsRequest, fields), 1).responses


def _replace(harness: CaseHarness, kind: int, name: str, configs: dict[str, str | None]) -> Any:
    fields = {
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": key, "value": value} for key, value in configs.items()],
            }
        ],
        "validate_only": False,
    }
    return harness.node_0.send(message(AlterConfigsRequest, fields), 2).responses


def _values(described: Any) -> dict[str, Any]:
    return {name: each.value for name, each in described["configs"].items()}


@case
def describe_configs_of_a_group(harness: CaseHarness) -> Any:
    group = harness.name("group")
    return {
        "all": _describe(harness, _GROUP, group),
        "one": _describe(harness, _GROUP, group, [_SESSION, "no.such.setting"]),
        "with synonyms": _describe(harness, _GROUP, group, [_SESSION], synonyms=True)["configs"][
            _SESSION
        ].synonyms[0],
        "without a name": _describe(harness, _GROUP, ""),
    }


@case
def alter_configs_of_a_group(harness: CaseHarness) -> Any:
    group = harness.name("group")

    def value_is(value: str) -> Any:
        return harness.until(
            lambda: _values(_describe(harness, _GROUP, group, [_SESSION])) == {_SESSION: value}
        )

    seen: dict[str, Any] = {
        "validated": _alter(harness, _GROUP, group, (_SET, _SESSION, "50000"), validate_only=True),
        "set": _alter(harness, _GROUP, group, (_SET, _SESSION, "50000")),
    }
    value_is("50000")
    seen["described"] = _describe(harness, _GROUP, group, [_SESSION])
    fields = {"resource_types": [_GROUP]}
    listed = harness.node_0.send(message(ListConfigResourcesRequest, fields), 1)
    seen["listed"] = [each for each in listed.config_resources if each.resource_name == group]
    seen["deleted"] = _alter(harness, _GROUP, group, (_DELETE, _SESSION, None))
    value_is("45000")
    invalid: dict[str, tuple[int, str, str | None]] = {
        "too short": (_SET, _SESSION, "44999"),
        "too long": (_SET, _SESSION, "60001"),
        "longest": (_SET, _SESSION, "60000"),
        "no number": (_SET, _SESSION, "soon"),
        "null": (_SET, _SESSION, None),
        "unknown setting": (_SET, "no.such.setting", "1"),
        "unknown setting to delete": (_DELETE, "no.such.setting", None),
        "no list": (_APPEND, _SESSION, "1"),
        "short heartbeat interval": (_SET, "consumer.heartbeat.interval.ms", "4999"),
        "long heartbeat interval": (_SET, "consumer.heartbeat.interval.ms", "15001"),
        "offset reset": (_SET, "share.auto.offset.reset", "earliest"),
        "odd offset reset": (_SET, "share.auto.offset.reset", "never"),
        "offset reset by duration": (_SET, "share.auto.offset.reset", "by_duration:PT1H"),
        "isolation level": (_SET, "share.isolation.level", "read_committed"),
        "odd isolation level": (_SET, "share.isolation.level", "none"),
        "short lock": (_SET, "share.record.lock.duration.ms", "14999"),
        "long lock": (_SET, "share.record.lock.duration.ms", "60001"),
        "short share session": (_SET, "share.session.timeout.ms", "44999"),
        "long share heartbeat interval": (_SET, "share.heartbeat.interval.ms", "15001"),
        "streams session": (_SET, "streams.session.timeout.ms", "60000"),
        "short streams session": (_SET, "streams.session.timeout.ms", "44999"),
        "long streams heartbeat interval": (_SET, "streams.heartbeat.interval.ms", "15001"),
        "standby replicas": (_SET, "streams.num.standby.replicas", "2"),
        "too many standby replicas": (_SET, "streams.num.standby.replicas", "3"),
        "negative standby replicas": (_SET, "streams.num.standby.replicas", "-1"),
    }
    for title, change in invalid.items():
        seen[title] = _alter(harness, _GROUP, group, change, validate_only=True)
    seen["without a name"] = _alter(harness, _GROUP, "", (_SET, _SESSION, "50000"))
    seen["replaced"] = _replace(harness, _GROUP, group, {_SESSION: "55000"})
    value_is("55000")
    seen["replaced by nothing"] = _replace(harness, _GROUP, group, {})
    value_is("45000")
    return seen


@case
def alter_configs_of_a_broker(harness: CaseHarness) -> Any:
    seen: dict[str, Any] = {}
    refused: dict[str, tuple[str, str, str | None]] = {
        "read-only": ("0", "offsets.topic.num.partitions", "5"),
        "read-only of all": ("", "offsets.topic.num.partitions", "5"),
        "unknown broker": ("9", _RATE, "1000"),
        "no number": ("zero", _RATE, "1000"),
        "negative rate": ("0", _RATE, "-1"),
        "rate as text": ("0", _RATE, "fast"),
    }
    for title, (name, key, value) in refused.items():
        seen[title] = _alter(harness, _BROKER, name, (_SET, key, value))
    seen["nothing to delete"] = _alter(harness, _BROKER, "0", (_DELETE, _RATE, None))
    seen["set"] = _alter(harness, _BROKER, "0", (_SET, _RATE, "1000000"))
    harness.until(lambda: _values(_describe(harness, _BROKER, "0", [_RATE])) == {_RATE: "1000000"})
    seen["described"] = _describe(harness, _BROKER, "0", [_RATE])
    seen["deleted"] = _alter(harness, _BROKER, "0", (_DELETE, _RATE, None))
    harness.until(lambda: not _describe(harness, _BROKER, "0", [_RATE])["configs"])
    seen["set for all"] = _alter(harness, _BROKER, "", (_SET, _RATE, "2000000"))
    harness.until(lambda: _values(_describe(harness, _BROKER, "", [_RATE])) == {_RATE: "2000000"})
    seen["described for all"] = _describe(harness, _BROKER, "", [_RATE])
    harness.until(lambda: _values(_describe(harness, _BROKER, "0", [_RATE])) == {_RATE: "2000000"})
    seen["described for one"] = _describe(harness, _BROKER, "0", [_RATE])
    seen["deleted for all"] = _alter(harness, _BROKER, "", (_DELETE, _RATE, None))
    harness.until(lambda: not _describe(harness, _BROKER, "0", [_RATE])["configs"])
    return seen


@case
def configs_of_odd_resources(harness: CaseHarness) -> Any:
    changes = ((_SET, "x", "1"),)
    return {
        "logger without a broker": _describe(harness, _BROKER_LOGGER, ""),
        "logger of another broker": _describe(harness, _BROKER_LOGGER, "1"),
        "metrics without a name": _describe(harness, _CLIENT_METRICS, ""),
        "alter an unknown type": _alter(harness, 77, "x", *changes),
        "alter loggers of no broker": _alter(harness, _BROKER_LOGGER, "", *changes),
        "alter loggers of another broker": _alter(harness, _BROKER_LOGGER, "1", *changes),
        "replace loggers": _replace(harness, _BROKER_LOGGER, "0", {"x": "1"}),
    }


@case
def list_config_resources(harness: CaseHarness) -> Any:
    topic = harness.topic()

    def listed(types: list[int], version: int = 1) -> Any:
        fields = {"resource_types": types} if version > 0 else {}
        answer = harness.node_0.send(message(ListConfigResourcesRequest, fields), version)
        found = [(each.resource_type, each.resource_name) for each in answer.config_resources]
        own = sorted(each for each in found if each[1] in (topic, "0", "1", "2"))
        return {"error_code": answer.error_code, "found": [f"{kind} {name}" for kind, name in own]}

    return {
        "v0": listed([], version=0),
        "all": listed([]),
        "topics": listed([_TOPIC]),
        "brokers": listed([_BROKER]),
        "loggers": listed([_BROKER_LOGGER]),
        "metrics and groups": listed([_CLIENT_METRICS, _GROUP]),
        "unknown": listed([77]),
        "one of them unknown": listed([_TOPIC, 77]),
        "a type twice": listed([_BROKER, _BROKER]),
    }
