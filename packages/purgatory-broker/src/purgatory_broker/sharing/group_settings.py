"""The settings of share groups: those of a group, or the cluster's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from purgatory_broker.metadata.resource_configs import GROUP_CONFIGS
from purgatory_broker.replication.replica import Replica
from purgatory_broker.settings import ClusterSettings

_DURATION = re.compile(
    r"by_duration:P(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_SECONDS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


class ShareGroupSettings:
    def __init__(
        self, settings: ClusterSettings, configs_of: Callable[[str], Mapping[str, str]]
    ) -> None:
        """`configs_of` returns the settings that clients have changed of a group."""
        self._settings = settings
        self._configs_of = configs_of
        self.max_in_flight = settings.group_share_partition_max_record_locks
        self.max_delivery_count = settings.group_share_delivery_count_limit

    def _value(self, group_id: str, name: str) -> str:
        return self._configs_of(group_id).get(name) or GROUP_CONFIGS[name].default(self._settings)

    def lock_duration_ms(self, group_id: str) -> int:
        return int(self._value(group_id, "share.record.lock.duration.ms"))

    def session_timeout_ms(self, group_id: str) -> int:
        return int(self._value(group_id, "share.session.timeout.ms"))

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return int(self._value(group_id, "share.heartbeat.interval.ms"))

    def is_read_committed(self, group_id: str) -> bool:
        return self._value(group_id, "share.isolation.level") == "read_committed"

    def start_offset(self, group_id: str, replica: Replica, now_ms: int) -> int:
        """Return where a group begins with a partition that it has not read yet."""
        reset = self._value(group_id, "share.auto.offset.reset")
        if reset == "earliest":
            return replica.log.log_start_offset
        if reset == "latest":
            return replica.high_watermark
        since_ms = now_ms - duration_ms(reset)
        found = replica.log.offset_for_timestamp(since_ms, replica.high_watermark)
        return replica.high_watermark if found is None else found[1]


def duration_ms(reset: str) -> int:
    """Return the milliseconds of `by_duration:PnDTnHnMn.nS`.

    >>> duration_ms("by_duration:P1DT1H1.5S")
    90001500
    """
    found = _DURATION.fullmatch(reset)
    parts = {} if found is None else found.groupdict()
    return int(1_000 * sum(_SECONDS[unit] * float(parts.get(unit) or 0) for unit in _SECONDS))
