"""The settings of a cluster as keyword arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

from purgatory_broker.settings import PATHS, ClusterSettings
from request_purgatory.errors import InvalidArgumentError


class ClusterOptions(TypedDict, total=False):
    """The fields of `ClusterSettings` as keyword arguments, without `nodes`."""

    data_dir: Path | str | None
    host: str
    port: int
    listeners: str | None
    advertised_listeners: str | None
    listener_security_protocol_map: str
    flush_messages: int | None
    ssl_keystore_location: Path | str | None
    ssl_key_password: str | None
    ssl_truststore_location: Path | str | None
    ssl_client_auth: str
    sasl_enabled_mechanisms: str
    connections_max_reauth_ms: int
    connection_failed_authentication_delay_ms: int
    sasl_users: dict[str, str]
    authorizer: bool
    super_users: str
    allow_everyone_if_no_acl_found: bool
    auto_create_topics_enable: bool
    auto_create_topics_at_once: bool
    num_partitions: int
    default_replication_factor: int | None
    min_insync_replicas: int
    replica_lag_time_max_ms: int
    replica_fetch_wait_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_max_bytes: int
    unclean_leader_election_enable: bool
    broker_session_timeout_ms: int
    socket_request_max_bytes: int
    queued_max_request_bytes: int
    connections_max_idle_ms: int
    max_connections: int
    max_request_partition_size_limit: int
    message_max_bytes: int
    fetch_max_bytes: int
    log_segment_bytes: int
    log_retention_ms: int | None
    log_retention_bytes: int | None
    log_retention_check_interval_ms: int
    log_cleanup_policy: str
    log_cleaner_backoff_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignors: str
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int
    offsets_topic_num_partitions: int
    offsets_commit_timeout_ms: int
    offset_metadata_max_bytes: int
    group_share_delivery_count_limit: int
    group_share_partition_max_record_locks: int
    group_share_record_lock_duration_ms: int
    group_share_min_record_lock_duration_ms: int
    group_share_max_record_lock_duration_ms: int
    group_share_session_timeout_ms: int
    group_share_min_session_timeout_ms: int
    group_share_max_session_timeout_ms: int
    group_share_heartbeat_interval_ms: int
    group_share_min_heartbeat_interval_ms: int
    group_share_max_heartbeat_interval_ms: int
    group_share_max_size: int
    group_share_max_share_sessions: int
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    transaction_state_log_num_partitions: int
    transaction_state_log_min_isr: int
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_version: int
    add_partitions_to_txn_retry_backoff_ms: int
    add_partitions_to_txn_retry_backoff_max_ms: int
    producer_id_expiration_ms: int
    producer_byte_rate: float | None
    consumer_byte_rate: float | None
    quota_window_num: int
    quota_window_size_ms: int
    fetch_purgatory_purge_interval_requests: int
    producer_purgatory_purge_interval_requests: int
    delete_records_purgatory_purge_interval_requests: int
    topic_defaults: dict[str, str]


def settings_from(nodes: int, options: ClusterOptions) -> ClusterSettings:
    values: dict[str, Any] = dict(options)
    for name in PATHS:
        if isinstance(values.get(name), str):
            values[name] = _path(name, values[name])
    return ClusterSettings(nodes=nodes, **values)


def record_folder(record: Path | str | None) -> Path | None:
    if record is not None and not isinstance(record, (str, Path)):
        raise InvalidArgumentError("record", "a Path, a str or None", record)
    return None if record is None else _path("record", record)


def _path(name: str, path: Path | str) -> Path:
    # Empty as of a variable that is not set; it would be the current directory.
    if path == "":
        raise InvalidArgumentError(name, "a path that is not empty", path)
    return Path(path).absolute()
