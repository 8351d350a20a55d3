"""Changes of the settings of groups and brokers, and of subscriptions of client metrics.

They are stored and described. Those of groups of the consumer protocol and of share groups have an
effect; the others are for streams groups.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.broker_configs import (
    ALL_BROKERS,
    BROKER_CONFIGS,
    MIN_INSYNC_REPLICAS,
    OF_ONE_BROKER,
)
from purgatory_broker.metadata.client_metrics import check_client_metrics
from purgatory_broker.metadata.metadata_store import MetadataStore
from purgatory_broker.metadata.partition_leaders import PartitionLeaders
from purgatory_broker.metadata.topic_configs import ConfigType, ResourceType, TopicConfig, constant
from purgatory_broker.metadata.topics import NO_LEADER, ControllerError
from purgatory_broker.settings import ClusterSettings

_INT, _STRING = ConfigType.INT, ConfigType.STRING
_OFFSET_RESET = re.compile(r"earliest|latest|by_duration:-?P(?=.)(\d+D)?(T(?=.)[\dHMS.]+)?")


@dataclass(frozen=True, slots=True)
class _OffsetReset(TopicConfig):
    """Where the members of a group begin to read: also by the age of records."""

    def error(self, value: str | None) -> str | None:
        if value is not None and _OFFSET_RESET.fullmatch(value):
            return None
        return f"Invalid value {value} for configuration {self.name}"


def _interval(name: str, default_ms: int, least_ms: int, longest_ms: int) -> TopicConfig:
    return TopicConfig(name, _INT, constant(str(default_ms)), minimum=least_ms, maximum=longest_ms)


def _by_name(*configs: TopicConfig) -> dict[str, TopicConfig]:
    return {config.name: config for config in configs}


def _limited(name: str) -> TopicConfig:
    """Return a setting whose default and limits are settings of the broker."""
    return TopicConfig(
        name, _INT, lambda settings: str(getattr(settings, _broker_setting("", name)))
    )


def _broker_setting(limit: str, name: str) -> str:
    """Return the broker's setting: "group_share_min_session_timeout_ms" for instance."""
    kind, _, what = name.replace(".", "_").partition("_")
    return f"group_{kind}_{limit}{what}"


#: The settings of groups with limits of the broker, by the name of the broker's setting.
_LIMITED = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "share.heartbeat.interval.ms",
    "share.record.lock.duration.ms",
    "share.session.timeout.ms",
)
#: With Kafka's limits, which are settings of its brokers.
GROUP_CONFIGS = _by_name(
    *map(_limited, _LIMITED),
    _OffsetReset("share.auto.offset.reset", _STRING, constant("latest")),
    TopicConfig(
        "share.isolation.level",
        _STRING,
        constant("read_uncommitted"),
        allowed=("read_committed", "read_uncommitted"),
    ),
    _interval("streams.heartbeat.interval.ms", 5_000, 5_000, 15_000),
    TopicConfig("streams.num.standby.replicas", _INT, constant("0"), minimum=0, maximum=2),
    _interval("streams.session.timeout.ms", 45_000, 45_000, 60_000),
)


class ResourceConfigs:
    def __init__(
        self, store: MetadataStore, leaders: PartitionLeaders, settings: ClusterSettings
    ) -> None:
        self._store = store
        self._leaders = leaders
        self._settings = settings

    def alter(
        self, kind: ResourceType, name: str, configs: dict[str, str], *, validate_only: bool
    ) -> None:
        """Replace the settings of a resource; the name of all brokers is empty."""
        before = self._store.resource_configs
        present = before.get((kind, name), {})
        if kind is ResourceType.GROUP:
            _check_group(configs, self._settings)
        elif kind is ResourceType.CLIENT_METRICS:
            check_client_metrics(configs)
        else:
            _check_broker(name, configs, present)
        if validate_only or present == configs:
            return
        after = {key: stored for key, stored in before.items() if key != (kind, name)}
        if configs:
            after[kind, name] = dict(configs)
        self._store.replace("resource_configs", after)
        if kind is ResourceType.BROKER:
            # Every log may have other settings, and the change may enable unclean elections.
            partitions = self._store.partitions()
            self._store.on_change(partitions)
            if any(partition.leader == NO_LEADER for partition in partitions):
                self._leaders.update()


def _check_group(configs: dict[str, str], settings: ClusterSettings) -> None:
    for name, value in configs.items():
        config = GROUP_CONFIGS.get(name)
        if config is not None and name in _LIMITED:
            config = replace(
                config,
                minimum=getattr(settings, _broker_setting("min_", name)),
                maximum=getattr(settings, _broker_setting("max_", name)),
            )
        error = f"Unknown group config name: {name}" if config is None else config.error(value)
        if error is not None:
            raise ControllerError(ErrorCode.INVALID_CONFIG, error)


def _check_broker(broker: str, configs: dict[str, str], present: Mapping[str, str]) -> None:
    fixed = [name for name in configs if name not in BROKER_CONFIGS]
    if fixed:
        raise ControllerError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: {', '.join(fixed)}",
        )
    for name, value in configs.items():
        error = BROKER_CONFIGS[name].error(value)
        if error is not None:
            raise ControllerError(ErrorCode.INVALID_REQUEST, error)
    if broker == ALL_BROKERS and OF_ONE_BROKER.intersection(configs):
        raise ControllerError(
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"{', '.join(OF_ONE_BROKER.intersection(configs))}",
        )
    if broker != ALL_BROKERS and MIN_INSYNC_REPLICAS in configs:
        raise ControllerError(
            ErrorCode.INVALID_CONFIG,
            f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled.",
        )
    if broker == ALL_BROKERS and MIN_INSYNC_REPLICAS in present.keys() - configs.keys():
        raise ControllerError(
            ErrorCode.INVALID_CONFIG,
            f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled.",
        )
