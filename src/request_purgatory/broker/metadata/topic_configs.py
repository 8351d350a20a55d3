"""The settings of topics and brokers that clients may ask for.

Names, types and defaults as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum

from request_purgatory.broker.settings import ClusterSettings


class ConfigType(IntEnum):
    """A setting's type, as DescribeConfigs has it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Where a setting's value is from, as DescribeConfigs has it."""

    DYNAMIC_TOPIC_CONFIG = 1
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class ResourceType(IntEnum):
    """What DescribeConfigs may ask for."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's setting."""

    name: str
    type: ConfigType
    default: Callable[[ClusterSettings], str]
    least: float | None = None
    allowed: tuple[str, ...] | None = None

    def fault(self, value: str | None) -> str | None:
        """What is wrong with a value, in Kafka's words; None if nothing is."""
        if value is None:
            return f"Null value not supported for topic configs: {self.name}"
        try:
            if self.type in (ConfigType.INT, ConfigType.LONG):
                number: float = int(value)
            elif self.type is ConfigType.DOUBLE:
                number = float(value)
            else:
                number = 0
        except ValueError:
            return f"Invalid value {value} for configuration {self.name}: Not a number of type {self.type.name}"
        if self.least is not None and number < self.least:
            return f"Invalid value {value} for configuration {self.name}: Value must be at least {self.least:.0f}"
        if self.type is ConfigType.BOOLEAN and value.lower() not in ("true", "false"):
            return f"Invalid value {value} for configuration {self.name}: Expected value to be either true or false"
        for each in value.split(",") if self.type is ConfigType.LIST else [value]:
            if self.allowed is not None and each.strip() not in self.allowed:
                return f"Invalid value {value} for configuration {self.name}: String must be one of: {', '.join(self.allowed)}"
        return None


def _is(text: str) -> Callable[[ClusterSettings], str]:
    return lambda _settings: text


def _limit(value: int | None) -> str:
    return "-1" if value is None else str(value)


def _flag(value: bool) -> str:
    return str(value).lower()


_COMPRESSION = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")

#: Those that change what this broker does; and further ones that clients set as a matter of course,
#: which it takes and tells.
TOPIC_CONFIGS = {
    config.name: config
    for config in (
        TopicConfig("cleanup.policy", ConfigType.LIST, _is("delete"), allowed=("compact", "delete")),
        TopicConfig("compression.type", ConfigType.STRING, _is("producer"), allowed=_COMPRESSION),
        TopicConfig("delete.retention.ms", ConfigType.LONG, _is("86400000"), least=0),
        TopicConfig("file.delete.delay.ms", ConfigType.LONG, _is("60000"), least=0),
        TopicConfig("flush.messages", ConfigType.LONG, lambda s: str(s.flush_messages or 2**63 - 1), least=1),
        TopicConfig("flush.ms", ConfigType.LONG, _is(str(2**63 - 1)), least=0),
        TopicConfig("follower.replication.throttled.replicas", ConfigType.LIST, _is("")),
        TopicConfig("index.interval.bytes", ConfigType.INT, _is("4096"), least=0),
        TopicConfig("leader.replication.throttled.replicas", ConfigType.LIST, _is("")),
        TopicConfig("local.retention.bytes", ConfigType.LONG, _is("-2"), least=-2),
        TopicConfig("local.retention.ms", ConfigType.LONG, _is("-2"), least=-2),
        TopicConfig("max.compaction.lag.ms", ConfigType.LONG, _is(str(2**63 - 1)), least=1),
        TopicConfig("max.message.bytes", ConfigType.INT, lambda s: str(s.message_max_bytes), least=0),
        TopicConfig("message.timestamp.after.max.ms", ConfigType.LONG, _is("3600000"), least=0),
        TopicConfig("message.timestamp.before.max.ms", ConfigType.LONG, _is(str(2**63 - 1)), least=0),
        TopicConfig("message.timestamp.type", ConfigType.STRING, _is("CreateTime"), allowed=("CreateTime", "LogAppendTime")),
        TopicConfig("min.cleanable.dirty.ratio", ConfigType.DOUBLE, _is("0.5"), least=0),
        TopicConfig("min.compaction.lag.ms", ConfigType.LONG, _is("0"), least=0),
        TopicConfig("min.insync.replicas", ConfigType.INT, lambda s: str(s.min_insync_replicas), least=1),
        TopicConfig("preallocate", ConfigType.BOOLEAN, _is("false")),
        TopicConfig("remote.log.copy.disable", ConfigType.BOOLEAN, _is("false")),
        TopicConfig("remote.log.delete.on.disable", ConfigType.BOOLEAN, _is("false")),
        TopicConfig("remote.storage.enable", ConfigType.BOOLEAN, _is("false")),
        TopicConfig("retention.bytes", ConfigType.LONG, lambda s: _limit(s.log_retention_bytes)),
        TopicConfig("retention.ms", ConfigType.LONG, lambda s: _limit(s.log_retention_ms), least=-1),
        TopicConfig("segment.bytes", ConfigType.INT, lambda s: str(s.log_segment_bytes), least=1_048_576),
        TopicConfig("segment.index.bytes", ConfigType.INT, _is("10485760"), least=4),
        TopicConfig("segment.jitter.ms", ConfigType.LONG, _is("0"), least=0),
        TopicConfig("segment.ms", ConfigType.LONG, _is("604800000"), least=1),
        TopicConfig("unclean.leader.election.enable", ConfigType.BOOLEAN, lambda s: _flag(s.unclean_leader_election_enable)),
    )
}  # fmt: skip


def config_fault(configs: Mapping[str, str | None]) -> str | None:
    """What is wrong with a topic's settings, in Kafka's words; None if nothing is."""
    for name, value in configs.items():
        config = TOPIC_CONFIGS.get(name)
        if config is None:
            return f"Unknown topic config name: {name}"
        fault = config.fault(value)
        if fault is not None:
            return fault
    return None


def topic_value(name: str, configs: dict[str, str], settings: ClusterSettings) -> str:
    """A topic's setting: its own, the cluster's for new topics, or the default."""
    if name in configs:
        return configs[name]
    return settings.topic_defaults.get(name) or TOPIC_CONFIGS[name].default(settings)


#: Kafka's names for a topic's settings where brokers have the default, but for those that are the
#: topic's with `log.` before it.
_AS_BROKER = {
    "max.message.bytes": "message.max.bytes",
    "compression.type": "compression.type",
    "min.insync.replicas": "min.insync.replicas",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.ms": "log.roll.ms",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
}


def broker_name(topic_config: str) -> str:
    """The broker's setting that is a topic's default."""
    return _AS_BROKER.get(topic_config, f"log.{topic_config}")


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A broker's setting as DescribeConfigs tells it."""

    name: str
    value: str | None
    type: ConfigType
    source: ConfigSource


#: Settings of this broker that Kafka's have not, or not as a broker's.
_OWN = frozenset(
    {
        "nodes",
        "port",
        "data_dir",
        "flush_messages",
        "topic_defaults",
        "producer_byte_rate",
        "consumer_byte_rate",
    }
)
_LONGS = frozenset(
    {
        "connections_max_idle_ms",
        "log_retention_bytes",
        "log_retention_check_interval_ms",
        "log_retention_ms",
        "queued_max_request_bytes",
        "replica_lag_time_max_ms",
    }
)


def broker_configs(settings: ClusterSettings, node_id: int) -> list[BrokerConfig]:
    """A broker's settings, by Kafka's names."""
    default = ClusterSettings()
    found = [
        BrokerConfig("broker.id", str(node_id), ConfigType.INT, ConfigSource.STATIC_BROKER_CONFIG)
    ]
    for name in (each.name for each in fields(settings) if each.name not in _OWN):
        value = getattr(settings, name)
        kind = (
            ConfigType.BOOLEAN
            if isinstance(value, bool)
            else ConfigType.LONG
            if name in _LONGS
            else ConfigType.INT
        )
        text = _flag(value) if isinstance(value, bool) else None if value is None else str(value)
        changed = value != getattr(default, name)
        source = ConfigSource.STATIC_BROKER_CONFIG if changed else ConfigSource.DEFAULT_CONFIG
        found.append(BrokerConfig(name.replace("_", "."), text, kind, source))
    return found
