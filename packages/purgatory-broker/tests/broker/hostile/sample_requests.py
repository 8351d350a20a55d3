"""Sample requests of every API and version, built from kafka-python's schemas, and their frames."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from typing import Any

from purgatory_broker._wire.apis import Api
from purgatory_broker.api.registry import APIS
from purgatory_broker.cluster.async_cluster import AsyncCluster
from tests.broker.raw_requests import records
from tests.broker.wire.schemas import request_class

TOPIC = "hostile"
GROUP = "hostile-group"
#: A placeholder for the topic's id, which differs between clusters; see `with_topic_id`.
TOPIC_ID = uuid.UUID("7e57ab1e-7e57-4b1e-8e57-7e57ab1e7e57")
CLIENT_ID = b"hostile"

#: Values by field name, chosen so that the request passes most checks of its handler.
VALUES: dict[str, Any] = {
    "name": TOPIC,
    "topic": TOPIC,
    "topic_names": [TOPIC + "-gone"],
    "resource_name": TOPIC,
    "topic_id": TOPIC_ID,
    "group_id": GROUP,
    "groups_names": [GROUP + "-gone"],
    "key": GROUP,
    "coordinator_keys": [GROUP],
    "transactional_id": None,
    "acks": 1,
    "timeout_ms": 50,
    "max_wait_ms": 1,
    "min_bytes": 1,
    "max_bytes": 65_536,
    "partition_max_bytes": 65_536,
    "replica_id": -1,
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "log_start_offset": -1,
    "timestamp": -1,
    "session_epoch": -1,
    "session_timeout_ms": 6_000,
    "rebalance_timeout_ms": 1,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "group_instance_id": None,
    "protocol_type": "consumer",
    "protocol_name": "range",
    "metadata": b"\0\1\0\0\0\1\0\7hostile\xff\xff\xff\xff",
    "retention_time_ms": -1,
    "committed_metadata": "note",
    "resource_type": 2,
    "resource_type_filter": 2,
    "operation": 3,
    "permission_type": 3,
    "config_operation": 0,
    "value": "60000",
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 2,
    "producer_id": -1,
    "producer_epoch": -1,
    "client_instance_id": uuid.UUID("7e57c11e-7e57-4c1e-8e57-7e57c11e7e57"),
    "client_software_name": "hostile",
    "client_software_version": "1.0",
    "endpoint_type": 1,
    "records": records(b"one", b"two"),
    "auth_bytes": b"\0hostile\0secret",
    "iterations": 4_096,
    "salt": b"salt",
    "salted_password": bytes(32),
    "mechanism": 1,
}
#: Values of fields that have another meaning in one API.
API_VALUES: dict[tuple[str, str], Any] = {
    ("CreateTopics", "name"): TOPIC + "-new",
    ("CreateTopics", "assignments"): [],
    ("CreateTopics", "configs"): [],
    ("CreatePartitions", "assignments"): None,
    ("DeleteTopics", "name"): TOPIC + "-gone",
    ("DeleteTopics", "topic_id"): None,
    ("Metadata", "topic_id"): None,
    ("DescribeConfigs", "configuration_keys"): None,
    ("JoinGroup", "name"): "range",
    ("IncrementalAlterConfigs", "name"): "retention.ms",
    ("DeleteRecords", "offset"): -1,
    ("AlterPartitionReassignments", "replicas"): [0],
    ("DescribeClientQuotas", "entity_type"): "user",
    ("AlterClientQuotas", "entity_type"): "user",
    ("AlterClientQuotas", "key"): "producer_byte_rate",
    ("AlterClientQuotas", "value"): 1e9,
    ("ListConfigResources", "resource_types"): [2, 32],
    ("DescribeQuorum", "topic_name"): "__cluster_metadata",
    ("DescribeGroups", "groups"): [GROUP],
    ("SaslHandshake", "mechanism"): "PLAIN",
    ("AlterUserScramCredentials", "deletions"): [],
    ("AlterUserScramCredentials", "name"): "hostile",
    ("DescribeUserScramCredentials", "name"): "hostile",
    ("ListGroups", "states_filter"): ["Stable"],
    ("ListGroups", "types_filter"): ["classic"],
    ("AddPartitionsToTxn", "transactional_id"): "hostile-id",
    ("AddPartitionsToTxn", "v3_and_below_transactional_id"): "hostile-id",
    ("AddOffsetsToTxn", "transactional_id"): "hostile-id",
    ("EndTxn", "transactional_id"): "hostile-id",
    ("TxnOffsetCommit", "transactional_id"): "hostile-id",
    ("DescribeTransactions", "transactional_ids"): ["hostile-id"],
    ("ListTransactions", "state_filters"): ["Ongoing"],
    ("ListTransactions", "transactional_id_pattern"): "hostile.*",
}


def every_api_and_version() -> Iterator[tuple[Api, int]]:
    """Yield every API with each supported version."""
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            yield api, version


def untagged_fields(struct_field: Any, version: int) -> list[Any]:
    """Return the untagged fields of a message, or of a part of one, in a version."""
    return [
        field
        for field in struct_field.fields.values()
        if field.for_version_q(version) and field._tag is None
    ]


def sample_request(api: Api, version: int) -> Any:
    """Return a request as a client sends it."""
    return _build(api, request_class(api), request_class(api)._struct, version)


def _build(api: Api, kind: Any, struct_field: Any, version: int) -> Any:
    values = {
        field.name: _value(api, field, version) for field in untagged_fields(struct_field, version)
    }
    return kind(**values)


def _value(api: Api, field: Any, version: int) -> Any:
    if (api.name, field.name) in API_VALUES:
        return API_VALUES[api.name, field.name]
    if field.is_struct_array():
        return [_build(api, field.data_class, field, version)]
    if field.name in VALUES:
        return VALUES[field.name]
    return [0] if field.is_array() else field.default


def body(api: Api, version: int, request: Any) -> bytes:
    """Encode a request without its header."""
    return bytes(request.encode(version=version))


def header(
    key: int,
    version: int,
    *,
    flexible: bool,
    correlation: int = 7,
    client_id: bytes | None = CLIENT_ID,
) -> bytes:
    """Encode a request's header."""
    length = -1 if client_id is None else len(client_id)
    return (
        struct.pack(">hhih", key, version, correlation, length)
        + (client_id or b"")
        + (b"\0" if flexible else b"")
    )


def frame(
    api: Api, version: int, content: bytes | None = None, *, client_id: bytes | None = CLIENT_ID
) -> bytes:
    """Return the frame of `content`, or of the sample request, without its size."""
    raw = body(api, version, sample_request(api, version)) if content is None else content
    return header(api.key, version, flexible=api.is_flexible(version), client_id=client_id) + raw


def leader_of(cluster: AsyncCluster, partition: int = 0) -> int:
    return cluster.controller.topics[TOPIC].partitions[partition].leader


def with_size(raw: bytes) -> bytes:
    """Return a frame with its size."""
    return struct.pack(">i", len(raw)) + raw


def with_topic_id(raw: bytes, topic_id: uuid.UUID) -> bytes:
    """Replace the samples' topic id in a frame by that of a real topic."""
    return raw.replace(TOPIC_ID.bytes, topic_id.bytes)
