"""Describe-, Alter- and DeleteShareGroupOffsets: where share groups begin with partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from purgatory_broker._wire.protocol.alter_share_group_offsets import (
    ALTER_SHARE_GROUP_OFFSETS_MESSAGES,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from purgatory_broker._wire.protocol.delete_share_group_offsets import (
    DELETE_SHARE_GROUP_OFFSETS_MESSAGES,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from purgatory_broker._wire.protocol.describe_share_group_offsets import (
    DESCRIBE_SHARE_GROUP_OFFSETS_MESSAGES,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from purgatory_broker.api.access import DENIED, allowed_topics, is_allowed
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.groups.share.messages import OffsetsResult, ShareOffset
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.request_context import RequestContext


def _denied(
    broker: BrokerApi,
    context: RequestContext,
    operation: AclOperation,
    topics: Mapping[str, Iterable[int]],
) -> dict[str, dict[int, ShareOffset]]:
    """Return the results of topics that the client may not use."""
    allowed = allowed_topics(broker, context, operation, topics)
    refused = ShareOffset(DENIED[AclResource.TOPIC])
    return {
        name: dict.fromkeys(partitions, refused)
        for name, partitions in topics.items()
        if name not in allowed
    }


def _with(result: OffsetsResult, denied: Mapping[str, dict[int, ShareOffset]]) -> OffsetsResult:
    return replace(result, topics=(*result.topics, *denied.items()))


def _describe(
    broker: BrokerApi, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> None:
    results: dict[int, DescribeShareGroupOffsetsResponseGroup] = {}

    def respond() -> None:
        if len(results) == len(request.groups):
            groups = [results[number] for number in sorted(results)]
            context.reply(DescribeShareGroupOffsetsResponse(groups=groups))

    def described(number: int, result: OffsetsResult) -> None:
        results[number] = DescribeShareGroupOffsetsResponseGroup(
            group_id=request.groups[number].group_id,
            error_code=result.error,
            error_message=result.message,
            topics=[
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    topic_id=broker.metadata.topic_id(name),
                    partitions=[
                        DescribeShareGroupOffsetsResponsePartition(
                            partition_index=index,
                            start_offset=offset.start_offset,
                            leader_epoch=offset.leader_epoch,
                            error_code=offset.error,
                            error_message=offset.message,
                        )
                        for index, offset in offsets.items()
                    ],
                )
                for name, offsets in result.topics
            ],
        )
        respond()

    def answered(
        number: int, denied: Mapping[str, dict[int, ShareOffset]], result: OffsetsResult
    ) -> None:
        described(number, _with(result, denied))

    def all_answered(number: int, result: OffsetsResult) -> None:
        allowed = allowed_topics(
            broker, context, AclOperation.DESCRIBE, [name for name, _ in result.topics]
        )
        topics = tuple(topic for topic in result.topics if topic[0] in allowed)
        described(number, replace(result, topics=topics))

    if not request.groups:
        respond()
    for number, group in enumerate(request.groups):
        wanted = group.topics
        group_id = group.group_id
        if not is_allowed(broker, context, AclOperation.DESCRIBE, AclResource.GROUP, group_id):
            described(number, OffsetsResult(DENIED[AclResource.GROUP]))
            continue
        asked = {topic.topic_name: list(topic.partitions) for topic in wanted or ()}
        denied = _denied(broker, context, AclOperation.DESCRIBE, asked)
        broker.groups.share.describe_offsets(
            group_id,
            None
            if wanted is None
            else {name: numbers for name, numbers in asked.items() if name not in denied},
            partial(all_answered, number) if wanted is None else partial(answered, number, denied),
        )


DESCRIBE_SHARE_GROUP_OFFSETS = ServedApi(
    messages=DESCRIBE_SHARE_GROUP_OFFSETS_MESSAGES, versions=(0, 0), handle=_describe
)


def _alter(
    broker: BrokerApi, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> None:
    def altered(result: OffsetsResult) -> None:
        context.reply(
            AlterShareGroupOffsetsResponse(
                error_code=result.error,
                error_message=result.message,
                responses=[
                    AlterShareGroupOffsetsResponseTopic(
                        topic_name=name,
                        topic_id=broker.metadata.topic_id(name),
                        partitions=[
                            AlterShareGroupOffsetsResponsePartition(
                                partition_index=index,
                                error_code=offset.error,
                                error_message=offset.message,
                            )
                            for index, offset in offsets.items()
                        ],
                    )
                    for name, offsets in result.topics
                ],
            )
        )

    given = {
        topic.topic_name: {
            partition.partition_index: partition.start_offset for partition in topic.partitions
        }
        for topic in request.topics
    }
    denied = _denied(broker, context, AclOperation.READ, given)
    allowed = {name: offsets for name, offsets in given.items() if name not in denied}
    broker.groups.share.alter_offsets(
        request.group_id, allowed, lambda result: altered(_with(result, denied))
    )


ALTER_SHARE_GROUP_OFFSETS = ServedApi(
    messages=ALTER_SHARE_GROUP_OFFSETS_MESSAGES,
    versions=(0, 0),
    requires={AclResource.GROUP: AclOperation.READ},
    handle=_alter,
)


def _delete(
    broker: BrokerApi, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> None:
    def deleted(result: OffsetsResult) -> None:
        context.reply(
            DeleteShareGroupOffsetsResponse(
                error_code=result.error,
                error_message=result.message,
                responses=[
                    DeleteShareGroupOffsetsResponseTopic(
                        topic_name=name,
                        topic_id=broker.metadata.topic_id(name),
                        error_code=offset.error,
                        error_message=offset.message,
                    )
                    for name, offsets in result.topics
                    for offset in offsets.values()
                ],
            )
        )

    names = {topic.topic_name: [-1] for topic in request.topics}
    denied = _denied(broker, context, AclOperation.READ, names)
    broker.groups.share.delete_offsets(
        request.group_id,
        [name for name in names if name not in denied],
        lambda result: deleted(_with(result, denied)),
    )


DELETE_SHARE_GROUP_OFFSETS = ServedApi(
    messages=DELETE_SHARE_GROUP_OFFSETS_MESSAGES,
    versions=(0, 0),
    requires={AclResource.GROUP: AclOperation.DELETE},
    handle=_delete,
)
