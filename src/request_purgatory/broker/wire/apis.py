"""The APIs that the broker speaks, and at which versions.

The messages are kafka-python's, one class for all versions of an API. The versions are Apache Kafka
4.1's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol import admin, consumer, metadata, producer


@dataclass(frozen=True, slots=True)
class Api:
    """An API.

    Its key, its name as Kafka writes it, its messages, and the versions that are served.
    """

    key: int
    name: str
    request: Any
    response: Any
    min_version: int
    max_version: int
    #: From this version on messages have compact lengths and tagged fields.
    flexible_from: int

    def serves(self, version: int) -> bool:
        """True if requests of this version are answered."""
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        """True if messages of this version have tagged fields."""
        return version >= self.flexible_from


def _api(module: Any, name: str, least: int, greatest: int) -> Api:
    request = getattr(module, f"{name}Request")
    response = getattr(module, f"{name}Response")
    flexible_from = request._flexible_versions[0]
    never = 1 << 15
    return Api(
        request.API_KEY,
        name,
        request,
        response,
        least,
        greatest,
        flexible_from if flexible_from >= 0 else never,
    )


PRODUCE = _api(producer, "Produce", 3, 13)
FETCH = _api(consumer, "Fetch", 4, 18)
LIST_OFFSETS = _api(consumer, "ListOffsets", 1, 10)
METADATA = _api(metadata, "Metadata", 0, 13)
OFFSET_COMMIT = _api(consumer, "OffsetCommit", 2, 9)
OFFSET_FETCH = _api(consumer, "OffsetFetch", 1, 9)
FIND_COORDINATOR = _api(metadata, "FindCoordinator", 0, 6)
JOIN_GROUP = _api(consumer, "JoinGroup", 0, 9)
HEARTBEAT = _api(consumer, "Heartbeat", 0, 4)
LEAVE_GROUP = _api(consumer, "LeaveGroup", 0, 5)
SYNC_GROUP = _api(consumer, "SyncGroup", 0, 5)
DESCRIBE_GROUPS = _api(admin, "DescribeGroups", 0, 6)
LIST_GROUPS = _api(admin, "ListGroups", 0, 5)
API_VERSIONS = _api(metadata, "ApiVersions", 0, 4)
CREATE_TOPICS = _api(admin, "CreateTopics", 2, 7)
DELETE_TOPICS = _api(admin, "DeleteTopics", 1, 6)
DELETE_RECORDS = _api(admin, "DeleteRecords", 0, 2)
INIT_PRODUCER_ID = _api(producer, "InitProducerId", 0, 5)
DESCRIBE_CONFIGS = _api(admin, "DescribeConfigs", 1, 4)
CREATE_PARTITIONS = _api(admin, "CreatePartitions", 0, 3)
DELETE_GROUPS = _api(admin, "DeleteGroups", 0, 2)
OFFSET_FOR_LEADER_EPOCH = _api(consumer, "OffsetForLeaderEpoch", 2, 4)
INCREMENTAL_ALTER_CONFIGS = _api(admin, "IncrementalAlterConfigs", 0, 1)
ALTER_CONFIGS = _api(admin, "AlterConfigs", 0, 2)
OFFSET_DELETE = _api(consumer, "OffsetDelete", 0, 0)
DESCRIBE_CLUSTER = _api(admin, "DescribeCluster", 0, 2)

#: All of them by key.
APIS = {
    api.key: api
    for api in (
        PRODUCE,
        FETCH,
        LIST_OFFSETS,
        METADATA,
        OFFSET_COMMIT,
        OFFSET_FETCH,
        FIND_COORDINATOR,
        JOIN_GROUP,
        HEARTBEAT,
        LEAVE_GROUP,
        SYNC_GROUP,
        DESCRIBE_GROUPS,
        LIST_GROUPS,
        API_VERSIONS,
        CREATE_TOPICS,
        DELETE_TOPICS,
        DELETE_RECORDS,
        INIT_PRODUCER_ID,
        DESCRIBE_CONFIGS,
        CREATE_PARTITIONS,
        DELETE_GROUPS,
        OFFSET_FOR_LEADER_EPOCH,
        INCREMENTAL_ALTER_CONFIGS,
        ALTER_CONFIGS,
        OFFSET_DELETE,
        DESCRIBE_CLUSTER,
    )
}

#: librdkafka takes a broker that does not name the oldest versions of Produce for one that knows no
#: compression, so that Kafka names them and refuses them (KAFKA-18659). So does this one.
LEAST_PRODUCE_VERSION_NAMED = 0


def named_versions(api: Api) -> tuple[int, int]:
    """What ApiVersions says of an API: its least and greatest version."""
    return (LEAST_PRODUCE_VERSION_NAMED if api is PRODUCE else api.min_version), api.max_version


def api_named(name: str) -> Api:
    """An API by its name, whatever case and underscores it is written with: `Produce`, `list_offsets`.

    Raises:
        ValueError: there is none; the message names them all.
    """
    plain = name.replace("_", "").replace("-", "").lower()
    for api in APIS.values():
        if api.name.lower() == plain:
            return api
    raise ValueError(
        f"no API {name!r}: there are {', '.join(sorted(api.name for api in APIS.values()))}"
    )
