"""The settings of a cluster.

Names are Kafka's, with underscores for dots. Defaults are Kafka's unless a comment says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import Any, TypedDict, get_args, get_type_hints

from request_purgatory.errors import InvalidArgumentError, whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The settings of a cluster. `_ms` is whole milliseconds, `_bytes` is bytes.

    The constructor raises InvalidArgumentError if a value is not allowed.

    Attributes:
        nodes: Number of nodes.
        data_dir: Directory of the segment files; None keeps the logs in memory.
        port: Port of node 0; node n has the port + n. 0 takes free ports.
        flush_messages: Messages appended to a log before it is flushed to the disk: 1 flushes every
            append, None leaves it to the operating system. Appended messages survive the end of the
            process in any case, flushed ones also a power failure.
        auto_create_topics_enable: Create a topic when a client asks for it.
        auto_create_topics_at_once: Answer the Metadata request that creates a topic with the topic.
            Kafka answers UNKNOWN_TOPIC_OR_PARTITION, so that clients ask again, after 100 ms or
            more.
        num_partitions: Partitions of topics that are created without a number.
        default_replication_factor: Replicas of topics that are created without a number. None is
            the number of nodes, at most 3; Kafka's default is 1.
        min_insync_replicas: In-sync replicas that a write with acks=all needs.
        replica_lag_time_max_ms: Time without catching up after which a follower leaves the in-sync
            replicas.
        replica_fetch_wait_max_ms: Longest wait of a follower's fetch.
        replica_fetch_min_bytes: Bytes for which a follower's fetch waits.
        replica_fetch_max_bytes: Largest response to a follower's fetch, for each partition.
        unclean_leader_election_enable: Elect a leader outside of the in-sync replicas if there is
            no other.
        broker_session_timeout_ms: Time without contact after which the controller fences a node.
            Kafka's default is 9,000.
        socket_request_max_bytes: Largest request; a larger one closes the connection.
        queued_max_request_bytes: Memory of all requests being read or handled, and, counted
            separately, of all responses that clients have not read. Kafka's default is no limit.
        connections_max_idle_ms: Time after which an idle connection is closed.
        max_connections: Open connections of a node. Kafka's default is no limit.
        message_max_bytes: Largest record batch that a topic takes.
        fetch_max_bytes: Largest response to a fetch.
        log_segment_bytes: Size of a segment file. Kafka's default is 1 GiB.
        log_retention_ms: Age at which segments are deleted; None keeps them.
        log_retention_bytes: Size of a partition at which its oldest segments are deleted; None is
            no limit.
        log_retention_check_interval_ms: Time between two looks for segments to delete.
        group_min_session_timeout_ms: Shortest session timeout that a group's member may ask for.
        group_max_session_timeout_ms: Longest session timeout that a group's member may ask for.
        group_initial_rebalance_delay_ms: Time for which a new group waits for further members, so
            that members that start together join in one rebalance. Kafka's default is 3,000.
        group_max_size: Members of a group.
        offsets_topic_num_partitions: Partitions of the topic of committed offsets. Kafka's default
            is 50.
        offsets_commit_timeout_ms: Time for which a commit waits for the offsets topic's replicas.
        offset_metadata_max_bytes: Largest metadata of a committed offset.
        producer_byte_rate: Bytes per second that each client id may produce; None is no limit.
        consumer_byte_rate: Bytes per second that each client id may fetch; None is no limit.
        quota_window_num: Windows over which the byte rates are averaged.
        quota_window_size_ms: Length of such a window. Kafka has it in seconds.
        fetch_purgatory_purge_interval_requests: Completed fetches that may remain in the watcher
            lists of their purgatory before a purge.
        producer_purgatory_purge_interval_requests: The same for produce requests.
        delete_records_purgatory_purge_interval_requests: The same for requests to delete records.
        topic_defaults: Defaults of topic settings for new topics: any of Kafka's topic settings, as
            text.
    """

    nodes: int = 1
    data_dir: Path | None = None
    port: int = 0
    flush_messages: int | None = None

    auto_create_topics_enable: bool = True
    auto_create_topics_at_once: bool = False
    num_partitions: int = 1
    default_replication_factor: int | None = None
    min_insync_replicas: int = 1
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1_048_576
    unclean_leader_election_enable: bool = False
    broker_session_timeout_ms: int = 3_000

    socket_request_max_bytes: int = 104_857_600
    queued_max_request_bytes: int = 268_435_456
    connections_max_idle_ms: int = 600_000
    max_connections: int = 20_000
    message_max_bytes: int = 1_048_588
    fetch_max_bytes: int = 57_671_680
    log_segment_bytes: int = 67_108_864
    log_retention_ms: int | None = 604_800_000
    log_retention_bytes: int | None = None
    log_retention_check_interval_ms: int = 300_000

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    group_max_size: int = 2_147_483_647
    offsets_topic_num_partitions: int = 4
    offsets_commit_timeout_ms: int = 5_000
    offset_metadata_max_bytes: int = 4_096

    producer_byte_rate: float | None = None
    consumer_byte_rate: float | None = None
    quota_window_num: int = 11
    quota_window_size_ms: int = 1_000

    fetch_purgatory_purge_interval_requests: int = 1_000
    producer_purgatory_purge_interval_requests: int = 1_000
    delete_records_purgatory_purge_interval_requests: int = 1

    topic_defaults: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        minimums = {
            "nodes": 1,
            "port": 0,
            "num_partitions": 1,
            "min_insync_replicas": 1,
            "offsets_topic_num_partitions": 1,
            "quota_window_num": 2,
            "quota_window_size_ms": 1,
            "log_segment_bytes": 1_024,
            "socket_request_max_bytes": 1_024,
            "queued_max_request_bytes": 1_024,
            "message_max_bytes": 64,
            "replica_fetch_max_bytes": 1,
            "max_connections": 1,
        }
        for name in (each.name for each in fields(self)):
            value = _checked_type(name, getattr(self, name))
            object.__setattr__(self, name, value)
            minimum = minimums.get(name, 0)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if is_number and value < minimum:
                raise InvalidArgumentError(name, f"at least {minimum}", value)
        if self.port + self.nodes > 65_536:
            raise InvalidArgumentError(
                "port", f"at most {65_536 - self.nodes} for {self.nodes} nodes", self.port
            )
        factor = self.default_replication_factor
        if factor is not None and not 1 <= factor <= self.nodes:
            raise InvalidArgumentError(
                "default_replication_factor",
                f"between 1 and {self.nodes}, the number of nodes",
                factor,
            )

    @property
    def replication_factor(self) -> int:
        """The replication factor of topics that are created without one."""
        return self.default_replication_factor or min(self.nodes, 3)


_HINTS = get_type_hints(ClusterSettings)


def _checked_type(name: str, value: Any) -> Any:
    """Return the value of a field if it has the field's type, whole numbers as an int.

    Raises:
        InvalidArgumentError: It has another type.
    """
    kinds = get_args(_HINTS[name]) or (_HINTS[name],)
    if name == "topic_defaults":
        if not isinstance(value, dict):
            raise InvalidArgumentError(name, "a dict", value)
        return value
    if value is None and NoneType in kinds:
        return value
    or_none = " or None" if NoneType in kinds else ""
    if int in kinds:
        return whole_number(name, value, f"a whole number (an int){or_none}")
    is_flag = isinstance(value, bool)
    if bool in kinds and not is_flag:
        raise InvalidArgumentError(name, "True or False", value)
    if float in kinds and (is_flag or not isinstance(value, (int, float))):
        raise InvalidArgumentError(name, f"a number{or_none}", value)
    if Path in kinds and not isinstance(value, Path):
        raise InvalidArgumentError(name, f"a Path{or_none}", value)
    return value


class ClusterOptions(TypedDict, total=False):
    """The fields of `ClusterSettings` as keyword arguments, without `nodes`."""

    data_dir: Path | str | None
    port: int
    flush_messages: int | None
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
    message_max_bytes: int
    fetch_max_bytes: int
    log_segment_bytes: int
    log_retention_ms: int | None
    log_retention_bytes: int | None
    log_retention_check_interval_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    offsets_topic_num_partitions: int
    offsets_commit_timeout_ms: int
    offset_metadata_max_bytes: int
    producer_byte_rate: float | None
    consumer_byte_rate: float | None
    quota_window_num: int
    quota_window_size_ms: int
    fetch_purgatory_purge_interval_requests: int
    producer_purgatory_purge_interval_requests: int
    delete_records_purgatory_purge_interval_requests: int
    topic_defaults: dict[str, str]


def settings_from(nodes: int, options: ClusterOptions) -> ClusterSettings:
    """Return the settings that keyword arguments stand for.

    Args:
        nodes: the number of nodes.
        options: other fields of `ClusterSettings`; `data_dir` may be text.

    Returns:
        The settings.

    Raises:
        InvalidArgumentError: a value is not allowed.
        TypeError: a setting is unknown.
    """
    values: dict[str, Any] = dict(options)
    if isinstance(values.get("data_dir"), str):
        values["data_dir"] = Path(values["data_dir"])
    return ClusterSettings(nodes=nodes, **values)
