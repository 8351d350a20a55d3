"""The settings of brokers that clients can change at run time, for one broker or for all.

They are those that Kafka can change, too, and that this broker has: the defaults of topic settings,
and two limits. The rates of throttled replication, and the one of Kerberos, are stored and
described only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from purgatory_broker.metadata.topic_configs import (
    TOPIC_CONFIGS,
    ConfigSource,
    ConfigType,
    ResourceType,
    TopicConfig,
    broker_config_name,
    constant,
)
from purgatory_broker.settings import ClusterSettings

#: The changed settings of brokers and groups, by type and name. The name of all brokers is empty.
ResourceValues: TypeAlias = Mapping[tuple[int, str], Mapping[str, str]]

ALL_BROKERS = ""
#: It can't be changed for one broker.
MIN_INSYNC_REPLICAS = "min.insync.replicas"
#: Topic settings that are not the default of one here: those of throttled replicas have none, and
#: there is no tiered storage.
_WITHOUT_DEFAULT = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
)
#: The topic settings by the names of the broker settings that are their defaults.
TOPIC_DEFAULTS = {
    broker_config_name(name): name for name in TOPIC_CONFIGS if name not in _WITHOUT_DEFAULT
}


@dataclass(frozen=True, slots=True)
class _RetentionTime(TopicConfig):
    """A time in milliseconds; a negative one is no limit."""

    def error(self, value: str | None) -> str | None:
        error = TopicConfig.error(self, value)
        if error is None and value is not None and int(value) == 0:
            return f"{self.name} must be unlimited (-1) or, greater than or equal to 1"
        return error


def _limit(name: str) -> TopicConfig:
    setting = name.replace(".", "_")
    return TopicConfig(name, ConfigType.INT, lambda s: str(getattr(s, setting)), minimum=1)


LIMITS = {name: _limit(name) for name in ("max.connections", "producer.id.expiration.ms")}
_RETENTION = "log.retention.ms"
_RELOGIN = "sasl.kerberos.min.time.before.relogin"
#: They can be changed for one broker alone. There is no Kerberos; librdkafka's tests change it.
OF_ONE_BROKER = frozenset({_RELOGIN})
#: Kafka has no defaults of these: without a value, there is no limit. It describes them as
#: read-only.
THROTTLES = {
    name: TopicConfig(name, ConfigType.LONG, constant(""), minimum=0)
    for name in (
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
}
BROKER_CONFIGS: dict[str, TopicConfig] = {
    **{
        name: replace(TOPIC_CONFIGS[topic_config], name=name)
        for name, topic_config in TOPIC_DEFAULTS.items()
    },
    _RETENTION: _RetentionTime(_RETENTION, ConfigType.LONG, TOPIC_CONFIGS["retention.ms"].default),
    **LIMITS,
    _RELOGIN: TopicConfig(_RELOGIN, ConfigType.LONG, constant("60000")),
    **THROTTLES,
}


def changed_values(
    configs: ResourceValues, node: int | None, name: str
) -> Iterator[tuple[str, ConfigSource]]:
    """Yield the values of a setting that clients have given, the effective one first.

    `node` is the broker; None is any, which has no values of its own.
    """
    own = configs.get((ResourceType.BROKER, str(node)), {})
    of_all = configs.get((ResourceType.BROKER, ALL_BROKERS), {})
    if node is not None and name in own:
        yield own[name], ConfigSource.DYNAMIC_BROKER_CONFIG
    if name in of_all:
        yield of_all[name], ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


def effective_settings(
    settings: ClusterSettings, configs: ResourceValues, node: int | None = None
) -> ClusterSettings:
    """Return the settings of a node, or of the controller, with what clients have changed."""
    changed = dict(configs.get((ResourceType.BROKER, ALL_BROKERS), {}))
    if node is not None:
        changed |= configs.get((ResourceType.BROKER, str(node)), {})
    defaults = {
        TOPIC_DEFAULTS[name]: value for name, value in changed.items() if name in TOPIC_DEFAULTS
    }
    limits: dict[str, Any] = {
        name.replace(".", "_"): int(value) for name, value in changed.items() if name in LIMITS
    }
    if not defaults and not limits:
        return settings
    return replace(settings, topic_defaults=settings.topic_defaults | defaults, **limits)
