"""The APIs of the broker, under their names."""

from __future__ import annotations

from purgatory_broker.api.registry import APIS, find_api

PRODUCE = find_api("Produce")
FETCH = find_api("Fetch")
LIST_OFFSETS = find_api("ListOffsets")
METADATA = find_api("Metadata")
OFFSET_COMMIT = find_api("OffsetCommit")
OFFSET_FETCH = find_api("OffsetFetch")
FIND_COORDINATOR = find_api("FindCoordinator")
JOIN_GROUP = find_api("JoinGroup")
HEARTBEAT = find_api("Heartbeat")
LEAVE_GROUP = find_api("LeaveGroup")
SYNC_GROUP = find_api("SyncGroup")
DESCRIBE_GROUPS = find_api("DescribeGroups")
LIST_GROUPS = find_api("ListGroups")
API_VERSIONS = find_api("ApiVersions")
CREATE_TOPICS = find_api("CreateTopics")
DELETE_TOPICS = find_api("DeleteTopics")
DELETE_RECORDS = find_api("DeleteRecords")
INIT_PRODUCER_ID = find_api("InitProducerId")
OFFSET_FOR_LEADER_EPOCH = find_api("OffsetForLeaderEpoch")
DESCRIBE_CONFIGS = find_api("DescribeConfigs")
ALTER_CONFIGS = find_api("AlterConfigs")
CREATE_PARTITIONS = find_api("CreatePartitions")
DELETE_GROUPS = find_api("DeleteGroups")
INCREMENTAL_ALTER_CONFIGS = find_api("IncrementalAlterConfigs")
OFFSET_DELETE = find_api("OffsetDelete")
DESCRIBE_CLUSTER = find_api("DescribeCluster")
DESCRIBE_PRODUCERS = find_api("DescribeProducers")
ELECT_LEADERS = find_api("ElectLeaders")
ALTER_PARTITION_REASSIGNMENTS = find_api("AlterPartitionReassignments")
LIST_PARTITION_REASSIGNMENTS = find_api("ListPartitionReassignments")
DESCRIBE_QUORUM = find_api("DescribeQuorum")
DESCRIBE_TOPIC_PARTITIONS = find_api("DescribeTopicPartitions")
DESCRIBE_CLIENT_QUOTAS = find_api("DescribeClientQuotas")
ALTER_CLIENT_QUOTAS = find_api("AlterClientQuotas")
LIST_CONFIG_RESOURCES = find_api("ListConfigResources")
SASL_HANDSHAKE = find_api("SaslHandshake")
SASL_AUTHENTICATE = find_api("SaslAuthenticate")
ALTER_USER_SCRAM_CREDENTIALS = find_api("AlterUserScramCredentials")
DESCRIBE_USER_SCRAM_CREDENTIALS = find_api("DescribeUserScramCredentials")

__all__ = [
    "ALTER_CLIENT_QUOTAS",
    "ALTER_CONFIGS",
    "ALTER_PARTITION_REASSIGNMENTS",
    "ALTER_USER_SCRAM_CREDENTIALS",
    "APIS",
    "API_VERSIONS",
    "CREATE_PARTITIONS",
    "CREATE_TOPICS",
    "DELETE_GROUPS",
    "DELETE_RECORDS",
    "DELETE_TOPICS",
    "DESCRIBE_CLIENT_QUOTAS",
    "DESCRIBE_CLUSTER",
    "DESCRIBE_CONFIGS",
    "DESCRIBE_GROUPS",
    "DESCRIBE_PRODUCERS",
    "DESCRIBE_QUORUM",
    "DESCRIBE_TOPIC_PARTITIONS",
    "DESCRIBE_USER_SCRAM_CREDENTIALS",
    "ELECT_LEADERS",
    "FETCH",
    "FIND_COORDINATOR",
    "HEARTBEAT",
    "INCREMENTAL_ALTER_CONFIGS",
    "INIT_PRODUCER_ID",
    "JOIN_GROUP",
    "LEAVE_GROUP",
    "LIST_CONFIG_RESOURCES",
    "LIST_GROUPS",
    "LIST_OFFSETS",
    "LIST_PARTITION_REASSIGNMENTS",
    "METADATA",
    "OFFSET_COMMIT",
    "OFFSET_DELETE",
    "OFFSET_FETCH",
    "OFFSET_FOR_LEADER_EPOCH",
    "PRODUCE",
    "SASL_AUTHENTICATE",
    "SASL_HANDSHAKE",
    "SYNC_GROUP",
]
