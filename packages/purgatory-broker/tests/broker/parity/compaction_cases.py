"""The settings of compaction, and produces to topics whose policy changes."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.batches import GZIP, batch
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness

_TOPIC = 2
_SET = 0


def _create(harness: CaseHarness, **configs: str) -> Any:
    """Return the error of a topic's creation, which is only validated, without its message."""
    wanted = {
        "name": harness.name(),
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [
            {"name": name.replace("_", "."), "value": value} for name, value in configs.items()
        ],
    }
    answer = harness.node_0.call(
        "CreateTopics", 7, topics=[wanted], timeout_ms=10_000, validate_only=True
    )
    return answer.topics[0].error_code


@case
def create_topics_with_cleanup_policies(harness: CaseHarness) -> Any:
    policies = ["compact", "compact,delete", "delete,compact", "compact, delete", "none", "COMPACT"]
    return {policy: _create(harness, cleanup_policy=policy) for policy in policies}


@case
def create_topics_with_settings_of_compaction(harness: CaseHarness) -> Any:
    values = {
        "min_cleanable_dirty_ratio": ["0", "1", "0.25", "-0.1", "1.1", "half"],
        "min_compaction_lag_ms": ["0", "-1", "5"],
        "max_compaction_lag_ms": ["0", "1", "9223372036854775807"],
        "delete_retention_ms": ["-1", "0", "1"],
        "segment_ms": ["0", "1"],
    }
    return {
        f"{name}={value}": _create(harness, **{name: value})
        for name, each in values.items()
        for value in each
    } | {
        "min > max": _create(harness, min_compaction_lag_ms="100", max_compaction_lag_ms="99"),
        "min = max": _create(harness, min_compaction_lag_ms="100", max_compaction_lag_ms="100"),
    }


@case
def alter_a_topic_to_conflicting_lags(harness: CaseHarness) -> Any:
    topic = harness.topic(configs={"min.compaction.lag.ms": "100"})
    return [_alter(harness, topic, "max.compaction.lag.ms", value) for value in ("99", "100")]


def _alter(harness: CaseHarness, topic: str, name: str, value: str) -> Any:
    config = {"name": name, "config_operation": _SET, "value": value}
    resources = [{"resource_type": _TOPIC, "resource_name": topic, "configs": [config]}]
    answer = harness.node_0.call(
        "IncrementalAlterConfigs", 1, resources=resources, validate_only=False
    )
    return answer.responses[0].error_code


@case
def produce_while_the_cleanup_policy_changes(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)

    def keyless() -> Any:
        return harness.produce(client, topic, batch(b"1", b"2", key=None))

    def is_refused(refused: bool) -> Any:
        return harness.until(lambda: (keyless().error_code != 0) == refused)

    seen = {"delete": keyless(), "altered": _alter(harness, topic, "cleanup.policy", "compact")}
    seen["compact"] = is_refused(True)
    seen |= {
        "error": keyless(),
        "compressed": harness.produce(client, topic, batch(b"1", b"2", key=None, codec=GZIP)),
        "altered to both": _alter(harness, topic, "cleanup.policy", "compact,delete"),
        "both": keyless().error_code,
        "altered back": _alter(harness, topic, "cleanup.policy", "delete"),
    }
    seen["delete again"] = is_refused(False)
    return seen
