"""DescribeTopicPartitions: describe topics in pages of some partitions (KIP-966)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS_MESSAGES,
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from purgatory_broker.api.access import DENIED, allowed_topics, authorized_operations
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topics import (
    INTERNAL_TOPICS,
    Partition,
    topic_name_error,
)
from purgatory_broker.request_context import RequestContext


def _describe_topic_partitions(
    broker: BrokerApi, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    named = {topic.name for topic in request.topics}
    names = sorted(named or broker.metadata.topics)
    first_index = 0
    if cursor is not None:
        if cursor.partition_index < 0 or (named and cursor.topic_name not in named):
            return DESCRIBE_TOPIC_PARTITIONS_MESSAGES.error_response(
                request, ErrorCode.INVALID_REQUEST
            )
        names = [name for name in names if name >= cursor.topic_name]
        if names and names[0] == cursor.topic_name:
            first_index = cursor.partition_index
    allowed = allowed_topics(broker, context, AclOperation.DESCRIBE, names)
    denied = [name for name in names if name not in allowed]
    if denied and denied[0] == names[0]:
        first_index = 0
    limit = min(broker.settings.max_request_partition_size_limit, request.response_partition_limit)
    names = [name for name in names if name in allowed]
    page = _page(broker, names, first_index, max(limit, 1))
    for topic in page.topics:
        topic.topic_authorized_operations = authorized_operations(
            broker, context, AclResource.TOPIC, topic.name or ""
        )
    if named:
        page.topics += [
            DescribeTopicPartitionsResponseTopic(error_code=DENIED[AclResource.TOPIC], name=name)
            for name in denied
        ]
    return page


def _page(
    broker: BrokerApi, names: list[str], first_index: int, limit: int
) -> DescribeTopicPartitionsResponse:
    """Describe at most `limit` partitions, from `first_index` of the first topic on."""
    alive = broker.metadata.alive()
    page = DescribeTopicPartitionsResponse()
    for name in names:
        if limit == 0:
            page.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        described = DescribeTopicPartitionsResponseTopic(
            name=name,
            is_internal=name in INTERNAL_TOPICS,
        )
        page.topics.append(described)
        topic = broker.metadata.topics.get(name)
        if topic is None:
            is_invalid = topic_name_error(name) is not None
            described.error_code = (
                ErrorCode.INVALID_TOPIC_EXCEPTION
                if is_invalid
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            continue
        described.topic_id = topic.topic_id
        end = first_index + limit
        partitions = topic.partitions[first_index:end]
        described.partitions = [_describe_partition(partition, alive) for partition in partitions]
        if end < len(topic.partitions):
            page.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        limit -= len(partitions)
        first_index = 0
    return page


def _describe_partition(
    partition: Partition, alive: AbstractSet[int]
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        # There are none, and null would mean that the broker does not know.
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[replica for replica in partition.replicas if replica not in alive],
    )


DESCRIBE_TOPIC_PARTITIONS = ServedApi(
    messages=DESCRIBE_TOPIC_PARTITIONS_MESSAGES,
    versions=(0, 0),
    answer=_describe_topic_partitions,
    # An error is told of each topic that the request names.
    tells_errors=lambda request, _version: bool(request.topics),
)
