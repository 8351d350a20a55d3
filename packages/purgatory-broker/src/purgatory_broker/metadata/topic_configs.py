"""The settings of topics and brokers that clients can describe, with Kafka's names and types."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum

from purgatory_broker.setting_values import LONG_SETTINGS
from purgatory_broker.settings import ClusterSettings


class ConfigType(IntEnum):
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


class ConfigSource(IntEnum):
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class TopicConfig:
    name: str
    type: ConfigType
    default: Callable[[ClusterSettings], str]
    minimum: float | None = None
    maximum: float | None = None
    #: The allowed texts, of a LIST those of its elements; None allows all.
    allowed: tuple[str, ...] | None = None

    def error(self, value: str | None) -> str | None:
        if value is None:
            return f"Null value not supported for topic configs: {self.name}"
        if not isinstance(value, str):  # From code or JSON; over Kafka's protocol, all are text.
            return f"Invalid value {value!r} for configuration {self.name}: Expected text"
        invalid = f"Invalid value {value} for configuration {self.name}"
        number = _number(self.type, value)
        if number is None:
            return f"{invalid}: Not a number of type {self.type.name}"
        if self.minimum is not None and number < self.minimum:
            return f"{invalid}: Value must be at least {self.minimum:.0f}"
        if self.maximum is not None and number > self.maximum:
            return f"{invalid}: Value must be no more than {self.maximum:.0f}"
        if self.type is ConfigType.BOOLEAN and value.lower() not in ("true", "false"):
            return f"{invalid}: Expected value to be either true or false"
        for item in value.split(",") if self.type is ConfigType.LIST else [value]:
            if self.allowed is not None and item.strip() not in self.allowed:
                return f"{invalid}: String must be one of: {', '.join(self.allowed)}"
        return None


#: The bits of the whole numbers, as in Java.
_BITS = {ConfigType.INT: 32, ConfigType.LONG: 64}
#: Python's `int` also takes underscores and digits of other scripts.
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,100}")


def _number(kind: ConfigType, text: str) -> float | None:
    """Return the number that a text stands for; None if it is none, and 0 for other types."""
    bits = _BITS.get(kind)
    if bits is not None:
        if _WHOLE_NUMBER.fullmatch(text.strip()) is None:
            return None
        number = int(text)
        return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None
    if kind is not ConfigType.DOUBLE:
        return 0
    try:
        return float(text)
    except ValueError:
        return None


def constant(text: str) -> Callable[[ClusterSettings], str]:
    return lambda _settings: text


def _limit_text(value: int | None) -> str:
    return "-1" if value is None else str(value)


def _flag_text(value: bool) -> str:
    return str(value).lower()


_GZIP_LEVELS = ("-1", *map(str, range(1, 10)))
_COMPRESSION = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST

#: All settings of topics. Some have no effect here (tiered storage, throttled replicas, levels of
#: compression, since batches stay as they are): clients commonly set them, so they are stored and
#: described.
TOPIC_CONFIGS = {
    config.name: config
    for config in (
        TopicConfig("cleanup.policy", _LIST, lambda s: s.log_cleanup_policy,
                    allowed=("compact", "delete")),
        TopicConfig("compression.gzip.level", _INT, constant("-1"), allowed=_GZIP_LEVELS),
        TopicConfig("compression.lz4.level", _INT, constant("9"), minimum=1, maximum=17),
        TopicConfig("compression.type", _STRING, constant("producer"), allowed=_COMPRESSION),
        TopicConfig("compression.zstd.level", _INT, constant("3"), minimum=-131_072, maximum=22),
        TopicConfig("delete.retention.ms", _LONG, constant("86400000"), minimum=0),
        TopicConfig("file.delete.delay.ms", _LONG, constant("60000"), minimum=0),
        TopicConfig("flush.messages", _LONG, lambda s: str(s.flush_messages or 2**63 - 1),
                    minimum=1),
        TopicConfig("flush.ms", _LONG, constant(str(2**63 - 1)), minimum=0),
        TopicConfig("follower.replication.throttled.replicas", _LIST, constant("")),
        TopicConfig("index.interval.bytes", _INT, constant("4096"), minimum=0),
        TopicConfig("leader.replication.throttled.replicas", _LIST, constant("")),
        TopicConfig("local.retention.bytes", _LONG, constant("-2"), minimum=-2),
        TopicConfig("local.retention.ms", _LONG, constant("-2"), minimum=-2),
        TopicConfig("max.compaction.lag.ms", _LONG, constant(str(2**63 - 1)), minimum=1),
        TopicConfig("max.message.bytes", _INT, lambda s: str(s.message_max_bytes), minimum=0),
        TopicConfig("message.timestamp.after.max.ms", _LONG, constant("3600000"), minimum=0),
        TopicConfig("message.timestamp.before.max.ms", _LONG, constant(str(2**63 - 1)), minimum=0),
        TopicConfig("message.timestamp.type", _STRING, constant("CreateTime"),
                    allowed=("CreateTime", "LogAppendTime")),
        TopicConfig("min.cleanable.dirty.ratio", _DOUBLE, constant("0.5"), minimum=0, maximum=1),
        TopicConfig("min.compaction.lag.ms", _LONG, constant("0"), minimum=0),
        TopicConfig("min.insync.replicas", _INT, lambda s: str(s.min_insync_replicas), minimum=1),
        TopicConfig("preallocate", _BOOLEAN, constant("false")),
        TopicConfig("remote.log.copy.disable", _BOOLEAN, constant("false")),
        TopicConfig("remote.log.delete.on.disable", _BOOLEAN, constant("false")),
        TopicConfig("remote.storage.enable", _BOOLEAN, constant("false")),
        TopicConfig("retention.bytes", _LONG, lambda s: _limit_text(s.log_retention_bytes)),
        TopicConfig("retention.ms", _LONG, lambda s: _limit_text(s.log_retention_ms), minimum=-1),
        TopicConfig("segment.bytes", _INT, lambda s: str(s.log_segment_bytes), minimum=1_048_576),
        TopicConfig("segment.index.bytes", _INT, constant("10485760"), minimum=4),
        TopicConfig("segment.jitter.ms", _LONG, constant("0"), minimum=0),
        TopicConfig("segment.ms", _LONG, constant("604800000"), minimum=1),
        TopicConfig("unclean.leader.election.enable", _BOOLEAN,
                    lambda s: _flag_text(s.unclean_leader_election_enable)),
    )
}  # fmt: skip


def topic_config_error(configs: Mapping[str, str | None]) -> str | None:
    for name, value in configs.items():
        config = TOPIC_CONFIGS.get(name)
        if config is None:
            return f"Unknown topic config name: {name}"
        error = config.error(value)
        if error is not None:
            return error
    least, longest = (configs.get(f"{which}.compaction.lag.ms") for which in ("min", "max"))
    if least is not None and longest is not None and int(least) > int(longest):
        return (
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({longest})"
        )
    return None


def topic_value(name: str, configs: dict[str, str], settings: ClusterSettings) -> str:
    """Return a topic's setting: its own, else that of `topic_defaults`, else the default."""
    if name in configs:
        return configs[name]
    return settings.topic_defaults.get(name) or TOPIC_CONFIGS[name].default(settings)


#: Kafka's names of the broker settings that are topic settings' defaults. A setting that is not
#: listed has the topic setting's name with the prefix `log.`.
_BROKER_NAMES = {
    "max.message.bytes": "message.max.bytes",
    "compression.type": "compression.type",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.zstd.level": "compression.zstd.level",
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


def broker_config_name(topic_config: str) -> str:
    """Return the name of the broker setting that is the default of a topic setting."""
    return _BROKER_NAMES.get(topic_config, f"log.{topic_config}")


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    name: str
    value: str | None
    type: ConfigType
    source: ConfigSource


#: Fields of ClusterSettings that are not broker settings of Kafka, or that it does not document.
_NOT_IN_KAFKA = frozenset(
    {
        "nodes",
        "host",
        "port",
        "sasl_users",
        "authorizer",
        "super_users",
        "allow_everyone_if_no_acl_found",
        "data_dir",
        "flush_messages",
        "topic_defaults",
        "producer_byte_rate",
        "consumer_byte_rate",
        "quota_window_size_ms",
        "transaction_version",
        "auto_create_topics_at_once",
        "group_consumer_regex_refresh_interval_ms",
    }
)
_TEXT_SETTINGS = {
    "listeners": ConfigType.STRING,
    "advertised_listeners": ConfigType.STRING,
    "listener_security_protocol_map": ConfigType.STRING,
    "ssl_keystore_location": ConfigType.STRING,
    "ssl_key_password": ConfigType.PASSWORD,
    "ssl_truststore_location": ConfigType.STRING,
    "ssl_client_auth": ConfigType.STRING,
    "sasl_enabled_mechanisms": ConfigType.LIST,
    "log_cleanup_policy": ConfigType.LIST,
    "group_consumer_assignors": ConfigType.LIST,
    "group_consumer_migration_policy": ConfigType.STRING,
}


def broker_configs(settings: ClusterSettings, node_id: int) -> list[BrokerConfig]:
    default = ClusterSettings()
    configs = [
        BrokerConfig("broker.id", str(node_id), ConfigType.INT, ConfigSource.STATIC_BROKER_CONFIG)
    ]
    for name in (field.name for field in fields(settings) if field.name not in _NOT_IN_KAFKA):
        value = getattr(settings, name)
        kind = (
            ConfigType.BOOLEAN
            if isinstance(value, bool)
            else ConfigType.LONG
            if name in LONG_SETTINGS
            else _TEXT_SETTINGS.get(name, ConfigType.INT)
        )
        text = None
        if value is not None and kind is not ConfigType.PASSWORD:
            text = _flag_text(value) if isinstance(value, bool) else str(value)
        changed = value != getattr(default, name)
        source = ConfigSource.STATIC_BROKER_CONFIG if changed else ConfigSource.DEFAULT_CONFIG
        configs.append(BrokerConfig(name.replace("_", "."), text, kind, source))
    return configs
