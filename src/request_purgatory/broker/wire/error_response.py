"""Builds the response that reports one error for all parts of a request.

Source: `getErrorResponse` of Kafka's request classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.apis import Api
from request_purgatory.broker.wire.error_code import ErrorCode

#: From this version on an OffsetFetch response has a top-level error code.
OFFSET_FETCH_ERROR_CODE_SINCE = 2


def error_response(api: Api, request: Any, code: ErrorCode) -> Any:
    """Build the response of `api` that reports `code` for every part of `request`.

    Returns:
        kafka-python's response, or None for a Produce request with acks=0, which gets no response.
    """
    return _BUILDERS[api.key](api.response, request, int(code))


def _heartbeat(response: Any, request: Any, code: int) -> Any:
    return response(error_code=code)


def _produce(response: Any, request: Any, code: int) -> Any:
    if request.acks == 0:
        return None
    topic_class = response.TopicProduceResponse
    partition_class = topic_class.PartitionProduceResponse
    return response(
        responses=[
            topic_class(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    partition_class(index=partition.index, error_code=code, base_offset=-1)
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(response: Any, request: Any, code: int) -> Any:
    topic_class = response.FetchableTopicResponse
    partition_class = topic_class.PartitionData
    return response(
        error_code=code,
        responses=[
            topic_class(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    partition_class(
                        partition_index=partition.partition,
                        error_code=code,
                        high_watermark=-1,
                        aborted_transactions=None,
                        records=b"",
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _list_offsets(response: Any, request: Any, code: int) -> Any:
    topic_class = response.ListOffsetsTopicResponse
    return response(
        topics=_failed_topics(topic_class, topic_class.ListOffsetsPartitionResponse, request, code)
    )


def _failed_topics(topic_class: Any, partition_class: Any, request: Any, code: int) -> list[Any]:
    """Return the topics and partitions of a request, each with the error."""
    return [
        topic_class(
            name=topic.name,
            partitions=[
                partition_class(partition_index=partition.partition_index, error_code=code)
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]


def _metadata(response: Any, request: Any, code: int) -> Any:
    topic_class = response.MetadataResponseTopic
    topics = [
        topic_class(error_code=code, name=topic.name or "", topic_id=topic.topic_id, partitions=[])
        for topic in request.topics or []
    ]
    return response(brokers=[], topics=topics, error_code=code)


def _offset_commit(response: Any, request: Any, code: int) -> Any:
    topic_class = response.OffsetCommitResponseTopic
    return response(
        topics=_failed_topics(topic_class, topic_class.OffsetCommitResponsePartition, request, code)
    )


def _offset_fetch(response: Any, request: Any, code: int) -> Any:
    topic_class = response.OffsetFetchResponseTopic
    partition_class = topic_class.OffsetFetchResponsePartition
    group_class = response.OffsetFetchResponseGroup
    topics = []
    if request.version < OFFSET_FETCH_ERROR_CODE_SINCE:
        topics = [
            topic_class(
                name=topic.name,
                partitions=[
                    partition_class(
                        partition_index=index, committed_offset=-1, metadata="", error_code=code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or []
        ]
    groups = [
        group_class(group_id=group.group_id, topics=[], error_code=code)
        for group in request.groups or []
    ]
    return response(topics=topics, error_code=code, groups=groups)


def _find_coordinator(response: Any, request: Any, code: int) -> Any:
    coordinator_class = response.Coordinator
    coordinators = [
        coordinator_class(
            key=key, node_id=-1, host="", port=-1, error_code=code, error_message=None
        )
        for key in request.coordinator_keys or []
    ]
    return response(
        error_code=code, error_message=None, node_id=-1, host="", port=-1, coordinators=coordinators
    )


def _leave_group(response: Any, request: Any, code: int) -> Any:
    return response(error_code=code, members=[])


def _join_group(response: Any, request: Any, code: int) -> Any:
    return response(
        error_code=code,
        generation_id=-1,
        protocol_type=None,
        protocol_name="",
        leader="",
        member_id=request.member_id,
        members=[],
    )


def _sync_group(response: Any, request: Any, code: int) -> Any:
    return response(error_code=code, protocol_type=None, protocol_name=None, assignment=b"")


def _describe_groups(response: Any, request: Any, code: int) -> Any:
    group_class = response.DescribedGroup
    return response(
        groups=[
            group_class(
                error_code=code,
                group_id=group_id,
                group_state="",
                protocol_type="",
                protocol_data="",
                members=[],
            )
            for group_id in request.groups
        ]
    )


def _create_topics(response: Any, request: Any, code: int) -> Any:
    topic_class = response.CreatableTopicResult
    return response(
        topics=[
            topic_class(name=topic.name, error_code=code, error_message=None, configs=[])
            for topic in request.topics
        ]
    )


def _delete_topics(response: Any, request: Any, code: int) -> Any:
    result_class = response.DeletableTopicResult
    found = [
        result_class(name=topic.name, topic_id=topic.topic_id, error_code=code)
        for topic in request.topics or []
    ]
    return response(
        responses=found
        + [result_class(name=name, error_code=code) for name in request.topic_names or []]
    )


def _create_partitions(response: Any, request: Any, code: int) -> Any:
    result_class = response.CreatePartitionsTopicResult
    return response(
        results=[
            result_class(name=topic.name, error_code=code, error_message=None)
            for topic in request.topics
        ]
    )


def _delete_records(response: Any, request: Any, code: int) -> Any:
    topic_class = response.DeleteRecordsTopicResult
    partition_class = topic_class.DeleteRecordsPartitionResult
    return response(
        topics=[
            topic_class(
                name=topic.name,
                partitions=[
                    partition_class(
                        partition_index=partition.partition_index, low_watermark=-1, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _describe_configs(response: Any, request: Any, code: int) -> Any:
    result_class = response.DescribeConfigsResult
    return response(
        results=[
            result_class(
                error_code=code,
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[],
            )
            for resource in request.resources
        ]
    )


def _delete_groups(response: Any, request: Any, code: int) -> Any:
    result_class = response.DeletableGroupResult
    return response(
        results=[
            result_class(group_id=group_id, error_code=code) for group_id in request.groups_names
        ]
    )


def _api_versions(response: Any, request: Any, code: int) -> Any:
    return response(error_code=code, api_keys=[])


def _list_groups(response: Any, request: Any, code: int) -> Any:
    return response(error_code=code, groups=[])


def _describe_cluster(response: Any, request: Any, code: int) -> Any:
    return response(error_code=code, error_message=None, cluster_id="", brokers=[])


def _init_producer_id(response: Any, request: Any, code: int) -> Any:
    return response(error_code=code, producer_id=-1, producer_epoch=-1)


def _offset_for_leader_epoch(response: Any, request: Any, code: int) -> Any:
    topic_class = response.OffsetForLeaderTopicResult
    partition_class = topic_class.EpochEndOffset
    return response(
        topics=[
            topic_class(
                topic=topic.topic,
                partitions=[
                    partition_class(partition=partition.partition, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _alter_configs(response: Any, request: Any, code: int) -> Any:
    result_class = response.AlterConfigsResourceResponse
    return response(
        responses=[
            result_class(
                error_code=code,
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def _offset_delete(response: Any, request: Any, code: int) -> Any:
    return response(error_code=code, topics=[])


_Build = Callable[[Any, Any, int], Any]

_BUILDERS: dict[int, _Build] = {
    apis.PRODUCE.key: _produce,
    apis.FETCH.key: _fetch,
    apis.LIST_OFFSETS.key: _list_offsets,
    apis.METADATA.key: _metadata,
    apis.OFFSET_COMMIT.key: _offset_commit,
    apis.OFFSET_FETCH.key: _offset_fetch,
    apis.FIND_COORDINATOR.key: _find_coordinator,
    apis.DESCRIBE_GROUPS.key: _describe_groups,
    apis.CREATE_TOPICS.key: _create_topics,
    apis.DELETE_TOPICS.key: _delete_topics,
    apis.CREATE_PARTITIONS.key: _create_partitions,
    apis.DELETE_RECORDS.key: _delete_records,
    apis.DESCRIBE_CONFIGS.key: _describe_configs,
    apis.DELETE_GROUPS.key: _delete_groups,
    apis.JOIN_GROUP.key: _join_group,
    apis.SYNC_GROUP.key: _sync_group,
    apis.HEARTBEAT.key: _heartbeat,
    apis.LEAVE_GROUP.key: _leave_group,
    apis.API_VERSIONS.key: _api_versions,
    apis.LIST_GROUPS.key: _list_groups,
    apis.DESCRIBE_CLUSTER.key: _describe_cluster,
    apis.INIT_PRODUCER_ID.key: _init_producer_id,
    apis.OFFSET_FOR_LEADER_EPOCH.key: _offset_for_leader_epoch,
    apis.INCREMENTAL_ALTER_CONFIGS.key: _alter_configs,
    apis.ALTER_CONFIGS.key: _alter_configs,
    apis.OFFSET_DELETE.key: _offset_delete,
}
