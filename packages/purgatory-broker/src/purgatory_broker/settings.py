"""The settings of a cluster.

Names are Kafka's, with underscores for dots. Defaults are Kafka's unless a comment says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import get_args, get_type_hints

from purgatory_broker.listeners import (
    LOOPBACK,
    PROTOCOL_MAP,
    Listener,
    join_address,
    listeners_from,
)
from purgatory_broker.setting_checks import (
    check_certificates,
    check_cleanup_policy,
    check_logins,
    check_one,
    check_port,
    check_replication_factor,
    check_some,
    check_super_users,
    check_users,
)
from purgatory_broker.setting_values import checked_setting
from request_purgatory.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The settings of a cluster. `_ms` is whole milliseconds, `_bytes` is bytes.

    The constructor raises InvalidArgumentError if a value is not allowed.

    Attributes:
        nodes: Number of nodes.
        data_dir: Directory of the segment files; the logs are in memory unless given.
        host: Address that the nodes listen on. With other than a loopback address, other machines
            can connect, without any security; see `listeners`.
        port: Port of node 0; node n has the port + n. 0 takes free ports.
        listeners: Listeners of node 0 as in Kafka, `NAME://host:port` with commas between, instead
            of `host` and `port`; node n has the ports + n. Unless given, there is one PLAINTEXT
            listener.
        advertised_listeners: Addresses that clients are told to connect to, in the same form; a
            port of 0 is the listener's own. Those of `listeners` unless given.
        listener_security_protocol_map: `NAME:PROTOCOL` for the listeners' names, with commas
            between.
        ssl_keystore_location: PEM file with the private key and the certificates of SSL and
            SASL_SSL listeners.
        ssl_key_password: Password of the private key.
        ssl_truststore_location: PEM file with the authorities that sign clients' certificates.
        ssl_client_auth: Whether clients need a certificate: none, requested or required.
        sasl_enabled_mechanisms: Mechanisms of SASL listeners: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512,
            and OAUTHBEARER, whose clients log in with unsecured tokens as anybody. Kafka's default
            is GSSAPI.
        connections_max_reauth_ms: Time after which a client of a SASL listener has to log in again
            on its connection; 0 is no limit.
        connection_failed_authentication_delay_ms: Time after which a connection is closed whose
            login has failed.
        sasl_users: Passwords of the users of SASL listeners, by user name.
        authorizer: Allow clients only what ACLs allow, as Kafka's StandardAuthorizer.
        super_users: Principals that may do everything, with semicolons between, such as
            User:admin;User:ANONYMOUS.
        allow_everyone_if_no_acl_found: Allow everything on a resource for which there is no ACL.
        flush_messages: Messages appended to a log before it is flushed to the disk; 1 flushes every
            append. Unless given, the operating system decides. Appended messages survive the end of
            the process in any case, flushed ones also a power failure.
        auto_create_topics_enable: Create a topic when a client asks for it.
        auto_create_topics_at_once: Answer the Metadata request that creates a topic with the topic.
            Kafka answers UNKNOWN_TOPIC_OR_PARTITION, so that clients ask again, after 100 ms or
            more.
        num_partitions: Partitions of topics that are created without a number.
        default_replication_factor: Replicas of topics that are created without a number; unless
            given, the number of nodes, at most 3. Kafka's default is 1.
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
        max_request_partition_size_limit: Most partitions in a response to DescribeTopicPartitions,
            whose clients ask for the others in further requests.
        message_max_bytes: Largest record batch that a topic takes.
        fetch_max_bytes: Largest response to a fetch.
        log_segment_bytes: Size of a segment file. Kafka's default is 1 GiB.
        log_retention_ms: Age at which segments are deleted; None keeps them.
        log_retention_bytes: Size of a partition at which its oldest segments are deleted; no limit
            unless given.
        log_retention_check_interval_ms: Time between two looks for segments to delete.
        log_cleanup_policy: Whether old segments are deleted, compacted, or both: `delete`,
            `compact` or `compact,delete`; the default of topics.
        log_cleaner_backoff_ms: Time between two looks for logs to compact.
        group_min_session_timeout_ms: Shortest session timeout that a group's member may ask for.
        group_max_session_timeout_ms: Longest session timeout that a group's member may ask for.
        group_initial_rebalance_delay_ms: Time for which a new group waits for further members, so
            that members that start together join in one rebalance. Kafka's default is 3,000.
        group_max_size: Members of a group.
        group_consumer_session_timeout_ms: Time without a heartbeat after which a member of the
            consumer protocol is removed from its group.
        group_consumer_min_session_timeout_ms: Shortest such time that a group's own settings allow.
        group_consumer_max_session_timeout_ms: Longest such time that a group's own settings allow.
        group_consumer_heartbeat_interval_ms: Time between two heartbeats of such a member, and so
            the time after which it learns of changes.
        group_consumer_min_heartbeat_interval_ms: Shortest such time that a group's own settings
            allow.
        group_consumer_max_heartbeat_interval_ms: Longest such time that a group's own settings
            allow.
        group_consumer_max_size: Members of a group of the consumer protocol.
        group_consumer_assignors: Assignors that such members may choose, with commas between:
            uniform and range. The first is the default.
        group_consumer_migration_policy: Whether groups with members change between the classic and
            the consumer protocol: bidirectional, upgrade, downgrade or disabled.
        group_consumer_regex_refresh_interval_ms: Time after which the topics of regular expressions
            are looked for again.
        offsets_topic_num_partitions: Partitions of the topic of committed offsets. Kafka's default
            is 50.
        offsets_commit_timeout_ms: Time for which a commit waits for the offsets topic's replicas.
        offset_metadata_max_bytes: Largest metadata of a committed offset.
        group_share_delivery_count_limit: Most times that a record is delivered to a share group.
        group_share_partition_max_record_locks: Records of a partition that a share group has in
            flight, beyond which its members get no others.
        group_share_record_lock_duration_ms: Time for which a member of a share group has a record
            for itself, unless the group has a setting of its own.
        group_share_min_record_lock_duration_ms: Least such time that a group may set.
        group_share_max_record_lock_duration_ms: Longest such time that a group may set.
        group_share_session_timeout_ms: Time without a heartbeat after which a member of a share
            group is removed, unless the group has a setting of its own.
        group_share_min_session_timeout_ms: Least such time that a group may set.
        group_share_max_session_timeout_ms: Longest such time that a group may set.
        group_share_heartbeat_interval_ms: Time between two heartbeats of such a member, likewise.
        group_share_min_heartbeat_interval_ms: Least such time that a group may set.
        group_share_max_heartbeat_interval_ms: Longest such time that a group may set.
        group_share_max_size: Members of a share group.
        group_share_max_share_sessions: Share sessions of a node.
        share_coordinator_state_topic_num_partitions: Partitions of the topic of share groups'
            states. Kafka's default is 50.
        share_coordinator_snapshot_update_records_per_snapshot: Updates of a share partition's state
            between two snapshots.
        transaction_state_log_num_partitions: Partitions of the topic of transactions. Kafka's
            default is 50.
        transaction_state_log_min_isr: In-sync replicas that a change of a transaction needs; at
            most as many as the topic has.
        transaction_max_timeout_ms: Longest timeout that a producer's transactions may have.
        transactional_id_expiration_ms: Time after which a transactional id that is not used is
            forgotten.
        transaction_version: Level of the feature `transaction.version`: 2 gives each transaction an
            epoch of its own (KIP-890), 0 and 1 are as before Kafka 4.0.
        add_partitions_to_txn_retry_backoff_ms: Longest time after which a partition is added again
            to a transaction whose producer's last one is still ending.
        add_partitions_to_txn_retry_backoff_max_ms: Longest time for such attempts.
        producer_id_expiration_ms: Time after which a partition forgets an idle producer, unless it
            has an open transaction there.
        producer_byte_rate: Bytes per second that each client id may produce; no limit unless given.
        consumer_byte_rate: Bytes per second that each client id may fetch; no limit unless given.
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
    host: str = LOOPBACK
    port: int = 0
    listeners: str | None = None
    advertised_listeners: str | None = None
    listener_security_protocol_map: str = PROTOCOL_MAP
    flush_messages: int | None = None

    ssl_keystore_location: Path | None = None
    ssl_key_password: str | None = field(default=None, repr=False)
    ssl_truststore_location: Path | None = None
    ssl_client_auth: str = "none"
    sasl_enabled_mechanisms: str = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
    connections_max_reauth_ms: int = 0
    connection_failed_authentication_delay_ms: int = 100
    sasl_users: dict[str, str] = field(default_factory=dict, repr=False)
    authorizer: bool = False
    super_users: str = ""
    allow_everyone_if_no_acl_found: bool = False

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
    max_request_partition_size_limit: int = 2_000
    message_max_bytes: int = 1_048_588
    fetch_max_bytes: int = 57_671_680
    log_segment_bytes: int = 67_108_864
    log_retention_ms: int | None = 604_800_000
    log_retention_bytes: int | None = None
    log_retention_check_interval_ms: int = 300_000
    log_cleanup_policy: str = "delete"
    log_cleaner_backoff_ms: int = 15_000

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    group_max_size: int = 2_147_483_647
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_assignors: str = "uniform,range"
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_regex_refresh_interval_ms: int = 600_000
    offsets_topic_num_partitions: int = 4
    offsets_commit_timeout_ms: int = 5_000
    offset_metadata_max_bytes: int = 4_096

    group_share_delivery_count_limit: int = 5
    group_share_partition_max_record_locks: int = 2_000
    group_share_record_lock_duration_ms: int = 30_000
    group_share_min_record_lock_duration_ms: int = 15_000
    group_share_max_record_lock_duration_ms: int = 60_000
    group_share_session_timeout_ms: int = 45_000
    group_share_min_session_timeout_ms: int = 45_000
    group_share_max_session_timeout_ms: int = 60_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_min_heartbeat_interval_ms: int = 5_000
    group_share_max_heartbeat_interval_ms: int = 15_000
    group_share_max_size: int = 200
    group_share_max_share_sessions: int = 2_000
    share_coordinator_state_topic_num_partitions: int = 4
    share_coordinator_snapshot_update_records_per_snapshot: int = 500

    transaction_state_log_num_partitions: int = 4
    transaction_state_log_min_isr: int = 2
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_version: int = 2
    add_partitions_to_txn_retry_backoff_ms: int = 20
    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    producer_id_expiration_ms: int = 86_400_000

    producer_byte_rate: float | None = None
    consumer_byte_rate: float | None = None
    quota_window_num: int = 11
    quota_window_size_ms: int = 1_000

    fetch_purgatory_purge_interval_requests: int = 1_000
    producer_purgatory_purge_interval_requests: int = 1_000
    delete_records_purgatory_purge_interval_requests: int = 1

    topic_defaults: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (setting.name for setting in fields(self)):
            value = checked_setting(name, getattr(self, name), _HINTS[name])
            object.__setattr__(self, name, value)
        check_port(self.port, self.nodes)
        check_replication_factor(self.default_replication_factor, self.nodes)
        check_cleanup_policy(self.log_cleanup_policy)
        check_some(
            "group_consumer_assignors", self.group_consumer_assignors, self.consumer_assignors
        )
        check_one("group_consumer_migration_policy", self.group_consumer_migration_policy)
        self._check_listeners()

    def _check_listeners(self) -> None:
        if self.listeners is not None and (self.port, self.host) != (0, LOOPBACK):
            raise InvalidArgumentError("host and port", "left out with listeners", self.listeners)
        check_one("ssl_client_auth", self.ssl_client_auth)
        mechanisms = self.sasl_mechanisms
        check_some("sasl_enabled_mechanisms", self.sasl_enabled_mechanisms, mechanisms)
        check_users(self.sasl_users)
        check_super_users(self.super_users, self._super_users())
        first, *_ = self.node_listeners()
        check_certificates(
            first, self.ssl_client_auth, self.ssl_keystore_location, self.ssl_truststore_location
        )
        check_logins(first, mechanisms, self.sasl_users)

    @property
    def consumer_assignors(self) -> tuple[str, ...]:
        """The assignors of the consumer protocol, the default one first."""
        return tuple(filter(None, map(str.strip, self.group_consumer_assignors.split(","))))

    @property
    def sasl_mechanisms(self) -> tuple[str, ...]:
        """The mechanisms of SASL listeners."""
        return tuple(filter(None, map(str.strip, self.sasl_enabled_mechanisms.split(","))))

    def _super_users(self) -> list[tuple[str, str, str]]:
        given = filter(None, map(str.strip, self.super_users.split(";")))
        return [principal.partition(":") for principal in given]

    @property
    def super_user_names(self) -> frozenset[str]:
        """The principals of `super_users`, each with type, colon and name."""
        return frozenset(map("".join, self._super_users()))

    def node_listeners(self) -> list[tuple[Listener, ...]]:
        """Return the listeners of each node.

        Raises:
            InvalidArgumentError: A setting of listeners is not allowed.
        """
        listeners = self.listeners
        if listeners is None:
            listeners = f"PLAINTEXT://{join_address(self.host, self.port)}"
        return listeners_from(
            listeners, self.advertised_listeners, self.listener_security_protocol_map, self.nodes
        )

    @property
    def replication_factor(self) -> int:
        """The replication factor of topics that are created without one."""
        return self.default_replication_factor or min(self.nodes, 3)


_HINTS = get_type_hints(ClusterSettings)
#: The fields that are paths.
PATHS = tuple(name for name, hint in _HINTS.items() if Path in get_args(hint))
