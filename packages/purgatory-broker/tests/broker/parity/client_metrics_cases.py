"""Subscriptions of client metrics (KIP-714), where no plugin receives them."""

from __future__ import annotations

import uuid
from typing import Any

from kafka.protocol.admin import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)

from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import RawClient, message
from tests.broker.wire.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest

_SET, _DELETE, _APPEND = range(3)
_CLIENT_METRICS = 16

_Change = tuple[int, str, str | None]


def _alter(harness: CaseHarness, name: str, *changes: _Change, validate_only: bool = False) -> int:
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for operation, key, value in changes
    ]
    resource = {"resource_type": _CLIENT_METRICS, "resource_name": name, "configs": configs}
    fields = {"resources": [resource], "validate_only": validate_only}
    answer = harness.node_0.send(message(IncrementalAlterConfigsRequest, fields), 1)
    return int(answer.responses[0].error_code)


def _describe(harness: CaseHarness, name: str, *keys: str) -> Any:
    fields = {
        "resources": [
            {
                "resource_type": _CLIENT_METRICS,
                "resource_name": name,
                "configuration_keys": list(keys),
            }
        ],
        "include_synonyms": True,
        "include_documentation": False,
    }
    result = harness.node_0.send(message(DescribeConfigsRequest, fields), 4).results[0]
    return sorted(
        [
            *(each.name, each.value, each.config_source, each.config_type),
            *(each.read_only, each.is_sensitive, len(each.synonyms)),
        ]
        for each in result.configs
    )


def _listed(harness: CaseHarness, version: int) -> list[str]:
    fields = {"resource_types": [_CLIENT_METRICS]} if version else {}
    answer = harness.node_0.send(message(ListConfigResourcesRequest, fields), version)
    token = harness.name("")
    return sorted(
        each.resource_name for each in answer.config_resources if token in each.resource_name
    )


@case
def subscriptions_of_client_metrics(harness: CaseHarness) -> Any:
    name = harness.name("metrics")
    seen: dict[str, Any] = {"missing": _describe(harness, name)}
    try:
        seen["set"] = _alter(
            harness,
            name,
            (_SET, "metrics", "org.apache.kafka.producer.,org.apache.kafka.consumer."),
            (_SET, "interval.ms", "5000"),
            (_SET, "match", "client_id=app.*,client_software_name=.*"),
        )
        harness.until(lambda: "app.*" in str(_describe(harness, name)))
        seen["described"] = _describe(harness, name)
        seen["one described"] = _describe(harness, name, "interval.ms", "no.such.setting")
        # One of Kafka's nodes may list it a moment after another describes it.
        harness.until(lambda: bool(_listed(harness, 0)))
        seen["listed"] = [_listed(harness, version) for version in (0, 1)]
        seen["appended"] = _alter(harness, name, (_APPEND, "metrics", "*"))
        fields = {
            "resources": [
                {
                    "resource_type": _CLIENT_METRICS,
                    "resource_name": name,
                    "configs": [{"name": "interval.ms", "value": "200"}],
                }
            ],
            "validate_only": False,
        }
        answer = harness.node_0.send(message(AlterConfigsRequest, fields), 2)
        seen["replaced"] = int(answer.responses[0].error_code)
        harness.until(lambda: "200" in str(_describe(harness, name)))
        seen["described afterwards"] = _describe(harness, name)
    finally:
        deleted = [(_DELETE, key, None) for key in ("metrics", "interval.ms", "match")]
        seen["deleted"] = _alter(harness, name, *deleted)
        harness.until(lambda: "200" not in str(_describe(harness, name)))
    harness.until(lambda: not _listed(harness, 1))
    seen["listed afterwards"] = _listed(harness, 1)
    return seen


@case
def subscriptions_of_client_metrics_that_are_refused(harness: CaseHarness) -> Any:
    name = harness.name("metrics")
    changes: dict[str, _Change] = {
        "short": (_SET, "interval.ms", "99"),
        "shortest": (_SET, "interval.ms", "100"),
        "longest": (_SET, "interval.ms", "3600000"),
        "long": (_SET, "interval.ms", "3600001"),
        "no number": (_SET, "interval.ms", "soon"),
        "unknown": (_SET, "no.such.setting", "1"),
        "no metrics": (_SET, "metrics", ""),
        "a match": (_SET, "match", "client_id=a"),
        "spaces": (_SET, "match", " client_id = a , client_source_port=.* "),
        "no match": (_SET, "match", ""),
        "unknown name": (_SET, "match", "client=a"),
        "no value": (_SET, "match", "client_id"),
        "an empty value": (_SET, "match", "client_id="),
        "two equal signs": (_SET, "match", "client_id=a=b"),
        "no pattern": (_SET, "match", "client_id=("),
        "appended to a number": (_APPEND, "interval.ms", "5"),
        "null": (_SET, "metrics", None),
    }
    seen = {
        label: _alter(harness, name, change, validate_only=True)
        for label, change in changes.items()
    }
    seen["without a name"] = _alter(harness, "", (_SET, "interval.ms", "100"), validate_only=True)
    return seen


@case
def telemetry_is_not_advertised(harness: CaseHarness) -> Any:
    software = {"client_software_name": "a", "client_software_version": "1"}
    answer = harness.node_0.call("ApiVersions", 3, **software)
    return sorted(each.api_key for each in answer.api_keys if each.api_key in (71, 72))


_NOBODY = uuid.UUID(int=0)


def _push(
    client: RawClient,
    instance: uuid.UUID,
    subscription: int,
    *,
    codec: int = 0,
    is_terminating: bool = False,
    metrics: bytes = b"metrics",
) -> int:
    fields = {
        "client_instance_id": instance,
        "subscription_id": subscription,
        "terminating": is_terminating,
        "compression_type": codec,
        "metrics": metrics,
    }
    return int(client.send(message(PushTelemetryRequest, fields), 0).error_code)


def _ask(client: RawClient, instance: uuid.UUID = _NOBODY) -> Any:
    fields = {"client_instance_id": instance}
    return client.send(message(GetTelemetrySubscriptionsRequest, fields), 0)


@case
def telemetry_without_subscriptions(harness: CaseHarness) -> Any:
    client = harness.connect(harness.addresses()[0])
    seen: dict[str, Any] = {}
    answer = _ask(client)
    seen["asked"] = [
        *(answer.error_code, answer.client_instance_id != _NOBODY, answer.push_interval_ms),
        *(answer.telemetry_max_bytes, answer.delta_temporality),
        *(answer.accepted_compression_types, answer.requested_metrics),
    ]
    instance, subscription = answer.client_instance_id, answer.subscription_id
    again = _ask(client, instance)
    seen["again"] = [again.error_code, again.subscription_id, again.requested_metrics]
    seen["pushed"] = _push(client, instance, subscription)
    seen["pushed again"] = _push(client, instance, subscription)
    seen["asked after a push"] = _ask(client, instance).error_code
    seen["terminated"] = _push(client, instance, subscription, is_terminating=True)
    seen["pushed after the end"] = _push(client, instance, subscription)
    seen["terminated again"] = _push(client, instance, subscription, is_terminating=True)

    def new() -> tuple[uuid.UUID, int]:
        answer = _ask(client)
        return answer.client_instance_id, answer.subscription_id

    instance, subscription = new()
    seen["another subscription"] = _push(client, instance, subscription + 1)
    seen["after another subscription"] = _ask(client, instance).error_code
    for codec in range(-1, 6):
        seen[f"codec {codec}"] = _push(client, *new(), codec=codec)
    seen["most"] = _push(client, *new(), metrics=bytes(1_048_576))
    seen["too many"] = _push(client, *new(), metrics=bytes(1_048_577))
    seen["no metrics"] = _push(client, *new(), metrics=b"")
    seen["by nobody"] = _push(client, _NOBODY, 1)
    seen["by a reserved id"] = _push(client, uuid.UUID(int=1), 1)
    stranger = uuid.uuid4()
    seen["by a stranger"] = _push(client, stranger, 1)
    seen["asked by a stranger"] = _ask(client, stranger).error_code
    return seen


@case
def telemetry_of_subscriptions(harness: CaseHarness) -> Any:
    names = [harness.name(each) for each in ("one", "two", "three")]
    address = harness.addresses()[0]

    def asked(client_id: str, *, tells_software: bool = False) -> Any:
        client = RawClient(address, client_id=client_id)
        try:
            if tells_software:
                software = {"client_software_name": "tester", "client_software_version": "1.2"}
                client.call("ApiVersions", 3, **software)
            answer = _ask(client)
            return [answer.push_interval_ms, sorted(answer.requested_metrics)]
        finally:
            client.close()

    seen: dict[str, Any] = {}
    try:
        _alter(harness, names[0], (_SET, "metrics", "a.,b."), (_SET, "interval.ms", "10000"))
        _alter(
            harness,
            names[1],
            *((_SET, "metrics", "b., c."), (_SET, "interval.ms", "5000")),
            (_SET, "match", "client_id=app-[0-9]"),
        )
        _alter(
            harness,
            names[2],
            *((_SET, "metrics", "*"), (_SET, "interval.ms", "20000")),
            (_SET, "match", "client_software_name=test.*,client_software_version=1[.]2"),
        )
        harness.until(lambda: asked("app-1", tells_software=True)[1] == ["*"])
        seen = {
            "app": asked("app"),
            "app-1": asked("app-1"),
            "app-10": asked("app-10"),
            "software": asked("app", tells_software=True),
            "app-1's software": asked("app-1", tells_software=True),
        }
    finally:
        for name in names:
            deleted = [(_DELETE, key, None) for key in ("metrics", "interval.ms", "match")]
            _alter(harness, name, *deleted)
        harness.until(lambda: not _listed(harness, 1))
    return seen
