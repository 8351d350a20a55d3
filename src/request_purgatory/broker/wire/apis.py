"""The APIs that the broker serves, with their versions and kafka-python's message classes.

kafka-python has one class for all versions of a message. The versions are Apache Kafka 4.1's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

from kafka.protocol import admin, consumer, metadata, producer
from kafka.protocol.schemas.fields.codecs import EncodeBuffer

from request_purgatory.errors import InvalidArgumentError

#: Decodes a request at a position of a buffer; returns the request and the position after it.
RequestDecoder: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]
#: Encodes a response into a buffer.
ResponseEncoder: TypeAlias = Callable[[Any, EncodeBuffer], None]

# kafka-python compiles a codec for each version of a message, faster than its public `decode` and
# `encode`, but offers it only through this private attribute of the message's class.
_schema = attrgetter("_struct")


@dataclass(frozen=True, slots=True)
class Api:
    """An API: its key, its name in Kafka, its message classes and the versions that are served."""

    key: int
    name: str
    request: Any
    response: Any
    min_version: int
    max_version: int

    def supports(self, version: int) -> bool:
        """Return whether requests of `version` are handled."""
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        """Return whether messages of `version` have compact lengths and tagged fields (KIP-482)."""
        return bool(self.request.flexible_version_q(version))

    def request_decoder(self, version: int) -> RequestDecoder:
        """Return the compiled decoder of the requests of `version`."""
        flexible = self.is_flexible(version)
        decoder: RequestDecoder = _schema(self.request).compiled_decode_from(
            version, compact=flexible, tagged=flexible, data_class=self.request
        )
        return decoder

    def response_encoder(self, version: int) -> ResponseEncoder:
        """Return the compiled encoder of the responses of `version`."""
        flexible = self.is_flexible(version)
        encoder: ResponseEncoder = _schema(self.response).compiled_encode_into(
            version, compact=flexible, tagged=flexible
        )
        return encoder


def _api(module: Any, name: str, min_version: int, max_version: int) -> Api:
    request = getattr(module, f"{name}Request")
    response = getattr(module, f"{name}Response")
    return Api(request.API_KEY, name, request, response, min_version, max_version)


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

#: Every API by its key.
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

#: librdkafka assumes that a broker that does not advertise the oldest versions of Produce supports
#: no compression. Kafka therefore advertises them, and refuses them (KAFKA-18659).
MIN_ADVERTISED_PRODUCE_VERSION = 0


def advertised_versions(api: Api) -> tuple[int, int]:
    """Return the least and the greatest version of `api` that ApiVersions advertises."""
    min_version = MIN_ADVERTISED_PRODUCE_VERSION if api is PRODUCE else api.min_version
    return min_version, api.max_version


def api_by_name(name: str) -> Api:
    """Return the API of a name, in any case, with or without underscores or dashes.

    `ListOffsets`, `list_offsets` and `list-offsets` are the same name.

    Raises:
        InvalidArgumentError: No API has this name. The message lists the names.
    """
    plain = name.replace("_", "").replace("-", "").lower()
    for api in APIS.values():
        if api.name.lower() == plain:
            return api
    known = ", ".join(sorted(api.name for api in APIS.values()))
    raise InvalidArgumentError("api", f"one of {known}", name)
