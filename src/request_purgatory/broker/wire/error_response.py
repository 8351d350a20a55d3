"""The response that tells of one error for all that a request asked, as Kafka has for every API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.apis import Api
from request_purgatory.broker.wire.error_code import ErrorCode

#: From this version on an OffsetFetch response has an error for the whole.
_OFFSET_FETCH_HAS_ERROR = 2


def error_response(api: Api, request: Any, code: ErrorCode) -> Any:
    """A response of `api` with `code` for every part of `request`.

    None for a Produce request that awaits no answer.
    """
    return _BUILDERS.get(api.key, _whole)(api.response, request, int(code))


def _whole(response: Any, request: Any, code: int) -> Any:
    return response(error_code=code)


def _produce(response: Any, request: Any, code: int) -> Any:
    if request.acks == 0:
        return None
    topic = response.TopicProduceResponse
    partition = topic.PartitionProduceResponse
    return response(
        responses=[
            topic(
                name=each.name,
                topic_id=each.topic_id,
                partition_responses=[
                    partition(index=one.index, error_code=code, base_offset=-1)
                    for one in each.partition_data
                ],
            )
            for each in request.topic_data
        ]
    )


def _fetch(response: Any, request: Any, code: int) -> Any:
    topic = response.FetchableTopicResponse
    partition = topic.PartitionData
    return response(
        error_code=code,
        responses=[
            topic(
                topic=each.topic,
                topic_id=each.topic_id,
                partitions=[
                    partition(
                        partition_index=one.partition,
                        error_code=code,
                        high_watermark=-1,
                        aborted_transactions=None,
                        records=b"",
                    )
                    for one in each.partitions
                ],
            )
            for each in request.topics
        ],
    )


def _list_offsets(response: Any, request: Any, code: int) -> Any:
    topic = response.ListOffsetsTopicResponse
    return response(
        topics=_same_partitions(topic, topic.ListOffsetsPartitionResponse, request, code)
    )


def _same_partitions(topic: Any, partition: Any, request: Any, code: int) -> list[Any]:
    """The topics and partitions of a request, each with the error."""
    return [
        topic(
            name=each.name,
            partitions=[
                partition(partition_index=one.partition_index, error_code=code)
                for one in each.partitions
            ],
        )
        for each in request.topics
    ]


def _metadata(response: Any, request: Any, code: int) -> Any:
    topic = response.MetadataResponseTopic
    topics = [
        topic(error_code=code, name=each.name or "", topic_id=each.topic_id, partitions=[])
        for each in request.topics or []
    ]
    return response(brokers=[], topics=topics, error_code=code)


def _offset_commit(response: Any, request: Any, code: int) -> Any:
    topic = response.OffsetCommitResponseTopic
    return response(
        topics=_same_partitions(topic, topic.OffsetCommitResponsePartition, request, code)
    )


def _offset_fetch(response: Any, request: Any, code: int) -> Any:
    topic = response.OffsetFetchResponseTopic
    partition = topic.OffsetFetchResponsePartition
    group = response.OffsetFetchResponseGroup
    topics = []
    if request.version < _OFFSET_FETCH_HAS_ERROR:
        topics = [
            topic(
                name=each.name,
                partitions=[
                    partition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=code
                    )
                    for index in each.partition_indexes
                ],
            )
            for each in request.topics or []
        ]
    groups = [
        group(group_id=each.group_id, topics=[], error_code=code) for each in request.groups or []
    ]
    return response(topics=topics, error_code=code, groups=groups)


def _find_coordinator(response: Any, request: Any, code: int) -> Any:
    coordinator = response.Coordinator
    coordinators = [
        coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=None)
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
    group = response.DescribedGroup
    return response(
        groups=[
            group(
                error_code=code,
                group_id=each,
                group_state="",
                protocol_type="",
                protocol_data="",
                members=[],
            )
            for each in request.groups
        ]
    )


def _create_topics(response: Any, request: Any, code: int) -> Any:
    topic = response.CreatableTopicResult
    return response(
        topics=[
            topic(name=each.name, error_code=code, error_message=None, configs=[])
            for each in request.topics
        ]
    )


def _delete_topics(response: Any, request: Any, code: int) -> Any:
    result = response.DeletableTopicResult
    found = [
        result(name=each.name, topic_id=each.topic_id, error_code=code)
        for each in request.topics or []
    ]
    return response(
        responses=found + [result(name=name, error_code=code) for name in request.topic_names or []]
    )


def _create_partitions(response: Any, request: Any, code: int) -> Any:
    result = response.CreatePartitionsTopicResult
    return response(
        results=[
            result(name=each.name, error_code=code, error_message=None) for each in request.topics
        ]
    )


def _delete_records(response: Any, request: Any, code: int) -> Any:
    topic = response.DeleteRecordsTopicResult
    partition = topic.DeleteRecordsPartitionResult
    return response(
        topics=[
            topic(
                name=each.name,
                partitions=[
                    partition(
                        partition_index=one.partition_index, low_watermark=-1, error_code=code
                    )
                    for one in each.partitions
                ],
            )
            for each in request.topics
        ]
    )


def _describe_configs(response: Any, request: Any, code: int) -> Any:
    result = response.DescribeConfigsResult
    return response(
        results=[
            result(
                error_code=code,
                error_message=None,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                configs=[],
            )
            for each in request.resources
        ]
    )


def _delete_groups(response: Any, request: Any, code: int) -> Any:
    result = response.DeletableGroupResult
    return response(
        results=[result(group_id=each, error_code=code) for each in request.groups_names]
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
    topic = response.OffsetForLeaderTopicResult
    partition = topic.EpochEndOffset
    return response(
        topics=[
            topic(
                topic=each.topic,
                partitions=[
                    partition(partition=one.partition, error_code=code) for one in each.partitions
                ],
            )
            for each in request.topics
        ]
    )


def _alter_configs(response: Any, request: Any, code: int) -> Any:
    result = response.AlterConfigsResourceResponse
    return response(
        responses=[
            result(
                error_code=code,
                error_message=None,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.resources
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
