"""The types and ranges of a cluster's settings."""

from __future__ import annotations

import math
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from request_purgatory.errors import InvalidArgumentError, whole_number

#: The most partitions that a topic is created with; Kafka's limit on one CreateTopics request
#: (`MAX_PARTITIONS_PER_BATCH`).
MAX_NEW_PARTITIONS = 10_000
#: The settings that are of type LONG in Kafka; other whole numbers are INT.
LONG_SETTINGS = frozenset(
    {
        "connections_max_idle_ms",
        "log_cleaner_backoff_ms",
        "connections_max_reauth_ms",
        "log_retention_bytes",
        "log_retention_check_interval_ms",
        "log_retention_ms",
        "queued_max_request_bytes",
        "replica_lag_time_max_ms",
    }
)
#: Settings with passwords, which errors do not show.
SECRETS = frozenset({"sasl_users", "ssl_key_password"})
_MINIMUMS = {
    "nodes": 1,
    "port": 0,
    "num_partitions": 1,
    "min_insync_replicas": 1,
    "group_consumer_session_timeout_ms": 1,
    "group_consumer_min_session_timeout_ms": 1,
    "group_consumer_max_session_timeout_ms": 1,
    "group_consumer_heartbeat_interval_ms": 1,
    "group_consumer_min_heartbeat_interval_ms": 1,
    "group_consumer_max_heartbeat_interval_ms": 1,
    "group_consumer_max_size": 1,
    "offsets_topic_num_partitions": 1,
    "group_share_delivery_count_limit": 2,
    "group_share_partition_max_record_locks": 1,
    "group_share_record_lock_duration_ms": 1,
    "group_share_min_record_lock_duration_ms": 1,
    "group_share_max_record_lock_duration_ms": 1,
    "group_share_session_timeout_ms": 1,
    "group_share_min_session_timeout_ms": 1,
    "group_share_max_session_timeout_ms": 1,
    "group_share_heartbeat_interval_ms": 1,
    "group_share_min_heartbeat_interval_ms": 1,
    "group_share_max_heartbeat_interval_ms": 1,
    "group_share_max_size": 1,
    "group_share_max_share_sessions": 1,
    "share_coordinator_state_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
    "transaction_state_log_min_isr": 1,
    "transaction_max_timeout_ms": 1,
    "transactional_id_expiration_ms": 1,
    "quota_window_num": 2,
    "quota_window_size_ms": 1,
    "log_segment_bytes": 1_024,
    "log_retention_check_interval_ms": 1,
    "log_cleaner_backoff_ms": 1,
    "socket_request_max_bytes": 1_024,
    "queued_max_request_bytes": 1_024,
    "max_request_partition_size_limit": 1,
    "message_max_bytes": 64,
    "replica_fetch_max_bytes": 1,
    "max_connections": 1,
    "producer_id_expiration_ms": 1,
    "add_partitions_to_txn_retry_backoff_ms": 1,
}
_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
#: Kafka's `log.flush.interval.messages` is a LONG, too.
_MAXIMUMS = dict.fromkeys([*LONG_SETTINGS, "flush_messages"], _LONG_MAX) | {
    "num_partitions": MAX_NEW_PARTITIONS,
    "offsets_topic_num_partitions": MAX_NEW_PARTITIONS,
    "group_share_delivery_count_limit": 10,
    "share_coordinator_state_topic_num_partitions": MAX_NEW_PARTITIONS,
    "transaction_state_log_num_partitions": MAX_NEW_PARTITIONS,
    "transaction_version": 2,
}


def checked_setting(name: str, value: Any, hint: Any) -> Any:
    kinds = get_args(hint) or (hint,)
    shown = "another value" if name in SECRETS else value
    if get_origin(hint) is dict:
        _check_dict(name, value, shown)
        return value
    if value is None and NoneType in kinds:
        return value
    or_none = " or None" if NoneType in kinds else ""
    if int in kinds:
        number = whole_number(name, value, f"a whole number (an int){or_none}")
        _check_range(name, number)
        return number
    if bool in kinds and not isinstance(value, bool):
        raise InvalidArgumentError(name, "True or False", value)
    if float in kinds:
        _check_number(name, value, or_none)
    if Path in kinds:
        if not isinstance(value, Path):
            raise InvalidArgumentError(name, f"a Path{or_none}", value)
        # The program may go to another directory while the cluster runs.
        return value.absolute()
    if str in kinds and not isinstance(value, str):
        raise InvalidArgumentError(name, f"a str{or_none}", shown)
    return value


def _check_dict(name: str, value: Any, shown: Any) -> None:
    if not isinstance(value, dict):
        raise InvalidArgumentError(name, "a dict", shown)
    if not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise InvalidArgumentError(name, "a dict of str to str", shown)


def _check_range(name: str, number: int) -> None:
    minimum, maximum = _MINIMUMS.get(name, 0), _MAXIMUMS.get(name, _INT_MAX)
    # Python refuses to write numbers of some thousand digits.
    shown = number if abs(number) <= 10**30 else f"a number of {number.bit_length()} bits"
    if number < minimum:
        raise InvalidArgumentError(name, f"at least {minimum}", shown)
    if number > maximum:
        raise InvalidArgumentError(name, f"at most {maximum}", shown)


def _check_number(name: str, value: Any, or_none: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidArgumentError(name, f"a number{or_none}", value)
    if isinstance(value, int):
        _check_range(name, value)
    elif not math.isfinite(value):
        raise InvalidArgumentError(name, f"a finite number{or_none}", value)
    elif value < 0:
        raise InvalidArgumentError(name, "at least 0", value)
