"""The settings of a cluster.

Kafka's names, with underscores for dots, and its defaults unless a comment says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path

from request_purgatory.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What a cluster is like. `_ms` is whole milliseconds, `_bytes` is bytes.

    Raises InvalidArgumentError, with the value, for one that no cluster can have.
    """

    nodes: int = 1
    #: Where segment files are kept; None keeps all in memory, which ends with the cluster.
    data_dir: Path | None = None
    #: The port of node 0, and the next ones for the others; 0 takes free ones.
    port: int = 0
    #: Written to a segment file before it is forced to the disk: 1 is after every append, None
    #: leaves it to the system. What was written survives the end of the process in any case, what
    #: was forced survives the end of the machine's power.
    flush_messages: int | None = None

    auto_create_topics_enable: bool = True
    num_partitions: int = 1
    #: Kafka's default is 1; here it is as many as there are nodes, and 3 at the most, since
    #: replication is what clusters are for.
    default_replication_factor: int | None = None
    min_insync_replicas: int = 1
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1_048_576
    unclean_leader_election_enable: bool = False
    #: A node that the controller has not heard of for so long is taken for dead. Kafka's is 9,000.
    broker_session_timeout_ms: int = 3_000

    #: Of one request; larger ones end the connection.
    socket_request_max_bytes: int = 104_857_600
    #: Of all requests that come in or are handled, and of all answers that are not read; Kafka's
    #: default is without limit.
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
    #: Kafka's is 3,000, which tests would wait for; a group whose members start together needs a
    #: little.
    group_initial_rebalance_delay_ms: int = 0
    group_max_size: int = 2_147_483_647
    offsets_topic_num_partitions: int = 4
    offsets_commit_timeout_ms: int = 5_000
    offset_metadata_max_bytes: int = 4_096

    #: Bytes a second that each client id may produce or fetch; None is without limit.
    producer_byte_rate: float | None = None
    consumer_byte_rate: float | None = None
    quota_window_num: int = 11
    quota_window_size_ms: int = 1_000

    #: Operations that have ended and are left in watcher lists until a purge, for each purgatory.
    purgatory_purge_interval_requests: int = 1_000

    #: Of each topic, where it is created without its own: any of Kafka's topic settings, as text.
    topic_defaults: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        least = {
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
            value = getattr(self, name)
            if (
                isinstance(value, (int, float))
                and not isinstance(value, bool)
                and value < least.get(name, 0)
            ):
                raise InvalidArgumentError(name, f"at least {least.get(name, 0)}", value)
        if self.port + self.nodes > 65_536:
            raise InvalidArgumentError(
                "port", f"at most {65_536 - self.nodes} for {self.nodes} nodes", self.port
            )
        factor = self.default_replication_factor
        if factor is not None and not 1 <= factor <= self.nodes:
            raise InvalidArgumentError(
                "default_replication_factor", f"between 1 and the {self.nodes} nodes", factor
            )

    @property
    def replication_factor(self) -> int:
        """Of topics that are created without their own."""
        return self.default_replication_factor or min(self.nodes, 3)
