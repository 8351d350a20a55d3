"""The settings' names, types and defaults, compared with those in Apache Kafka's artifacts."""

from __future__ import annotations

import html
import re
from dataclasses import fields
from typing import NamedTuple

import pytest

from purgatory_broker import ClusterSettings
from purgatory_broker.metadata.topic_configs import TOPIC_CONFIGS, broker_configs
from tests.broker.kafka_server import broker_libraries, run_class

pytestmark = pytest.mark.jvm

#: The settings that Kafka's brokers do not have, with the reasons.
NOT_KAFKAS = {
    "nodes": "the brokers of a cluster are processes of their own",
    "host": "part of `listeners`",
    "port": "part of `listeners`",
    "authorizer": "`authorizer.class.name`",
    "super_users": "a setting of Kafka's authorizer",
    "allow_everyone_if_no_acl_found": "as `super_users`",
    "sasl_users": "in Kafka part of `sasl.jaas.config`, or stored by clients",
    "data_dir": "`log.dirs`, of each broker",
    "auto_create_topics_at_once": "Kafka answers before it has created the topic",
    "group_consumer_regex_refresh_interval_ms": "Kafka has it, and does not document it",
    "flush_messages": "the default of the topic setting `flush.messages`",
    "topic_defaults": "the defaults of all other topic settings",
    "producer_byte_rate": "a quota, which clients set",
    "consumer_byte_rate": "a quota, which clients set",
    "transaction_version": "the feature `transaction.version`, which is set by a tool",
    "quota_window_size_ms": "`quota.window.size.seconds`: tests can't wait for whole seconds",
}
#: The settings with another default, with the reasons.
OTHER_DEFAULTS = {
    "listeners": "null, since `host` and `port` have the default, which is loopback",
    "sasl_enabled_mechanisms": "there is no GSSAPI",
    "default_replication_factor": "the nodes of a cluster replicate, unless a test says otherwise",
    "broker_session_timeout_ms": "tests do not wait for 9 s until a partitioned node is fenced",
    "queued_max_request_bytes": "a process of its own memory limits it",
    "max_connections": "a process of its own memory limits them",
    "log_segment_bytes": "logs are in memory",
    "log_retention_ms": "null, since `log.retention.hours` has the default",
    "group_initial_rebalance_delay_ms": "tests do not wait for 3 s for the first member",
    "offsets_topic_num_partitions": "50 partitions would take longer to create than a test to run",
    "transaction_state_log_num_partitions": "as `offsets_topic_num_partitions`",
    "share_coordinator_state_topic_num_partitions": "as `offsets_topic_num_partitions`",
}
#: The topic settings that take any value, with the reasons.
UNCHECKED = {
    "follower.replication.throttled.replicas": "it has no effect",
    "leader.replication.throttled.replicas": "it has no effect",
}
#: The topic settings with another default, with the reasons.
OTHER_TOPIC_DEFAULTS = {
    "segment.bytes": OTHER_DEFAULTS["log_segment_bytes"],
}

_SETTING = re.compile(r"<h4>.*?</h4>.*?</table>", re.DOTALL)
_NAME = re.compile(r'<h4>.*?href="#[^"]*">(.*?)</a>', re.DOTALL)
_ROW = re.compile(r"<tr><th>(.*?):</th><td>(.*?)</td></tr>", re.DOTALL)
#: What the documentation adds to a number: "604800000 (7 days)".
_UNIT = re.compile(r" \(.*\)$")


class KafkaSetting(NamedTuple):
    """A setting as Kafka documents it."""

    type: str
    default: str | None
    valid_values: str


def settings_of(main: str) -> dict[str, KafkaSetting]:
    """Return the settings that a class of Kafka documents, by name."""
    found = {}
    for entry in _SETTING.findall(run_class(broker_libraries(), main)):
        name = _NAME.search(entry)
        assert name is not None, entry
        rows = {key: html.unescape(value) for key, value in _ROW.findall(entry)}
        default = _UNIT.sub("", rows["Default"]) if "Default" in rows else None
        found[name.group(1)] = KafkaSetting(
            rows["Type"], "" if default == '""' else default, rows.get("Valid Values", "")
        )
    return found


def text(value: object) -> str:
    """Return a default as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_settings_have_kafkas_names_types_and_defaults() -> None:
    kafkas = settings_of("kafka.server.KafkaConfig")
    ours = ClusterSettings()
    names = {each.name: each.name.replace("_", ".") for each in fields(ours)}
    assert {name for name, dotted in names.items() if dotted not in kafkas} == set(NOT_KAFKAS)
    defaults = {name: getattr(ours, name) for name in names if name not in NOT_KAFKAS}
    differing = {
        name
        for name, default in defaults.items()
        # Kafka has -1 for "no limit", and null for what is not set.
        if kafkas[names[name]].default
        not in (["-1", "null"] if default is None else [text(default)])
    }
    assert differing == set(OTHER_DEFAULTS)
    described = {config.name: config.type.name.lower() for config in broker_configs(ours, 0)}
    del described["broker.id"]
    assert described == {names[name]: kafkas[names[name]].type for name in defaults}


def test_topic_settings_have_kafkas_names_types_and_defaults() -> None:
    """All of Kafka's, and no others."""
    kafkas = settings_of("org.apache.kafka.storage.internals.log.LogConfig")
    assert set(TOPIC_CONFIGS) == set(kafkas)
    types = {name: config.type.name.lower() for name, config in TOPIC_CONFIGS.items()}
    assert types == {name: setting.type for name, setting in kafkas.items()}
    ours = ClusterSettings()
    differing = {
        name
        for name, config in TOPIC_CONFIGS.items()
        if config.default(ours) != kafkas[name].default
    }
    assert differing == set(OTHER_TOPIC_DEFAULTS)


def test_topic_settings_have_kafkas_valid_values() -> None:
    kafkas = settings_of("org.apache.kafka.storage.internals.log.LogConfig")
    for name, config in TOPIC_CONFIGS.items():
        valid = kafkas[name].valid_values
        numbers = re.fullmatch(r"\[(-?\d+),\.\.\.(?:,(-?\d+))?\](?: or (-?\d+))?", valid)
        if name in UNCHECKED:
            assert valid, name
            assert (config.minimum, config.maximum, config.allowed) == (None, None, None), name
        elif numbers is None:
            texts = tuple(valid.strip("[]").split(", ")) if valid else None
            assert (config.minimum, config.maximum) == (None, None), name
            assert texts == config.allowed or set(texts or ()) == set(config.allowed or ()), name
        else:
            least, most, other = numbers.groups()
            for number in (least, most, other):
                assert number is None or config.error(number) is None, (name, number)
            assert config.error(str(int(least) - 1)), name
            assert most is None or config.error(str(int(most) + 1)), name
