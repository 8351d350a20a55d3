"""Subscriptions of client metrics (KIP-714): which clients are to push which metrics, how often."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.topic_configs import ConfigType, TopicConfig, constant
from purgatory_broker.metadata.topics import ControllerError

METRICS, INTERVAL, MATCH = "metrics", "interval.ms", "match"
DEFAULT_INTERVAL_MS = 300_000
#: What subscribes to all metrics.
ALL_METRICS = "*"
_MIN_INTERVAL_MS, _MAX_INTERVAL_MS = 100, 3_600_000
#: What a subscription may match of a client.
_ATTRIBUTES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)

CLIENT_METRICS_CONFIGS = {
    METRICS: TopicConfig(METRICS, ConfigType.LIST, constant("")),
    INTERVAL: TopicConfig(INTERVAL, ConfigType.INT, constant(str(DEFAULT_INTERVAL_MS))),
    MATCH: TopicConfig(MATCH, ConfigType.LIST, constant("")),
}


class Subscribed(NamedTuple):
    """What a client is to push."""

    metrics: tuple[str, ...] = ()
    interval_ms: int = DEFAULT_INTERVAL_MS


@dataclass(frozen=True, slots=True)
class Subscription:
    metrics: frozenset[str]
    interval_ms: int
    #: By attribute.
    patterns: Mapping[str, re.Pattern[str]]

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> Subscription:
        return cls(
            frozenset(_elements(configs.get(METRICS, ""))),
            int(configs.get(INTERVAL, DEFAULT_INTERVAL_MS)),
            _patterns(configs.get(MATCH, "")),
        )

    def matches(self, attributes: Mapping[str, str]) -> bool:
        return all(
            pattern.fullmatch(attributes.get(name, "")) if name in attributes else False
            for name, pattern in self.patterns.items()
        )


def check_client_metrics(configs: Mapping[str, str]) -> None:
    """Check the configs of a subscription."""
    for name, value in configs.items():
        config = CLIENT_METRICS_CONFIGS.get(name)
        if config is None:
            raise ControllerError(
                ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}"
            )
        error = config.error(value)
        if error is not None:
            raise ControllerError(ErrorCode.INVALID_CONFIG, error)
        if name == INTERVAL and not _MIN_INTERVAL_MS <= int(value) <= _MAX_INTERVAL_MS:
            raise ControllerError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid value {value} for {INTERVAL}, interval must be between "
                f"{_MIN_INTERVAL_MS} and {_MAX_INTERVAL_MS} (1 hour)",
            )
        if name == MATCH:
            _patterns(value)


def _elements(text: str) -> list[str]:
    return [element for element in map(str.strip, text.split(",")) if element]


def _patterns(text: str) -> dict[str, re.Pattern[str]]:
    patterns = {}
    for element in _elements(text):
        name, _, pattern = (part.strip() for part in element.partition("="))
        if name not in _ATTRIBUTES or not pattern or "=" in pattern:
            raise ControllerError(
                ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {element}"
            )
        try:
            patterns[name] = re.compile(pattern)
        except re.error:
            raise ControllerError(
                ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {element}"
            ) from None
    return patterns


def subscribed(subscriptions: list[Subscription], attributes: Mapping[str, str]) -> Subscribed:
    """Return what a client is to push, by all subscriptions that match it."""
    matching = [each for each in subscriptions if each.matches(attributes)]
    metrics = sorted({name for each in matching for name in each.metrics})
    return Subscribed(
        (ALL_METRICS,) if ALL_METRICS in metrics else tuple(metrics),
        min((each.interval_ms for each in matching), default=DEFAULT_INTERVAL_MS),
    )
