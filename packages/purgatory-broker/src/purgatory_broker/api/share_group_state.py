"""Initialize-, Read-, Write- and DeleteShareGroupState, and ReadShareGroupStateSummary.

Leaders and group coordinators send them to share coordinators. Within a cluster they go over the
simulated network, without these messages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from purgatory_broker._wire.api_messages import ApiMessages
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.request_context import RequestContext
from purgatory_broker.sharing.records import RecordState, StateBatch
from purgatory_broker.sharing.share_coordinator import ShareCoordinator, StateReply, StateResult
from purgatory_broker.sharing.state import ShareKey, ShareState

_STATES = frozenset(int(state) for state in RecordState)
T = TypeVar("T")


def _api(
    messages: ApiMessages[Any, Any],
    ask: Callable[[ShareCoordinator, ShareKey, Any, StateReply], None],
    topic_class: type[Any],
    answer: Callable[[int, StateResult], Any],
) -> ServedApi[Any, Any]:
    """Return an API that asks the coordinator for each partition, and answers with all results."""

    def handle(broker: BrokerApi, context: RequestContext, request: Any) -> None:
        wanted = [
            (position, topic.topic_id, partition)
            for position, topic in enumerate(request.topics)
            for partition in topic.partitions
        ]
        results: dict[int, StateResult] = {}

        def respond() -> None:
            if len(results) < len(wanted):
                return
            topics = [topic_class(topic_id=topic.topic_id) for topic in request.topics]
            for number, (position, _, partition) in enumerate(wanted):
                part = answer(partition.partition, results[number])
                topics[position].partitions.append(part)
            context.reply(messages.response(results=topics))

        def ended(number: int, result: StateResult) -> None:
            results[number] = result
            respond()

        if not wanted:
            respond()
        for number, (_, topic_id, partition) in enumerate(wanted):
            reply = partial(ended, number)
            if topic_id is None:
                message = "The topic id cannot be null."
                reply(StateResult(ErrorCode.INVALID_REQUEST, message))
            else:
                key = ShareKey(request.group_id, topic_id, partition.partition)
                ask(broker.share_coordinator, key, partition, reply)

    return ServedApi(
        messages=messages,
        versions=(0, 0),
        requires={AclResource.CLUSTER: AclOperation.CLUSTER_ACTION},
        handle=handle,
        more_groups=lambda request: [request.group_id],
    )


def _initialize(
    coordinator: ShareCoordinator,
    key: ShareKey,
    partition: initialize_share_group_state.PartitionData,
    reply: StateReply,
) -> None:
    coordinator.initialize(key, partition.state_epoch, partition.start_offset, reply)


def _read(
    coordinator: ShareCoordinator,
    key: ShareKey,
    partition: read_share_group_state.PartitionData,
    reply: StateReply,
) -> None:
    coordinator.read(key, partition.leader_epoch, reply)


def _write(
    coordinator: ShareCoordinator,
    key: ShareKey,
    partition: write_share_group_state.PartitionData,
    reply: StateReply,
) -> None:
    unknown = [
        batch.delivery_state
        for batch in partition.state_batches
        if batch.delivery_state not in _STATES
    ]
    if unknown:
        message = f"Unknown record state id: {unknown[0]}"
        reply(StateResult(ErrorCode.INVALID_REQUEST, message))
        return
    update = ShareState(
        state_epoch=partition.state_epoch,
        leader_epoch=partition.leader_epoch,
        start_offset=partition.start_offset,
        batches=tuple(
            StateBatch(
                batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
            )
            for batch in partition.state_batches
        ),
    )
    coordinator.write(key, update, reply)


def _read_result(index: int, result: StateResult) -> read_share_group_state.PartitionResult:
    answer = read_share_group_state.PartitionResult(
        partition=index, error_code=int(result.error), error_message=result.message
    )
    if result.error is ErrorCode.NONE:
        answer.state_epoch = result.state.state_epoch
        answer.start_offset = result.state.start_offset
        answer.state_batches = [
            read_share_group_state.StateBatch(
                first_offset=batch.first,
                last_offset=batch.last,
                delivery_state=batch.state,
                delivery_count=batch.delivery_count,
            )
            for batch in result.state.batches
        ]
    return answer


def _summary(index: int, result: StateResult) -> read_share_group_state_summary.PartitionResult:
    answer = read_share_group_state_summary.PartitionResult(
        partition=index, error_code=int(result.error), error_message=result.message
    )
    if result.error is ErrorCode.NONE:
        answer.state_epoch = result.state.state_epoch
        answer.leader_epoch = result.state.leader_epoch
        answer.start_offset = result.state.start_offset
    return answer


def _error_only(kind: Callable[..., T]) -> Callable[[int, StateResult], T]:
    return lambda index, result: kind(
        partition=index, error_code=int(result.error), error_message=result.message
    )


INITIALIZE_SHARE_GROUP_STATE = _api(
    initialize_share_group_state.INITIALIZE_SHARE_GROUP_STATE_MESSAGES,
    _initialize,
    initialize_share_group_state.InitializeStateResult,
    _error_only(initialize_share_group_state.PartitionResult),
)

READ_SHARE_GROUP_STATE = _api(
    read_share_group_state.READ_SHARE_GROUP_STATE_MESSAGES,
    _read,
    read_share_group_state.ReadStateResult,
    _read_result,
)

WRITE_SHARE_GROUP_STATE = _api(
    write_share_group_state.WRITE_SHARE_GROUP_STATE_MESSAGES,
    _write,
    write_share_group_state.WriteStateResult,
    _error_only(write_share_group_state.PartitionResult),
)

DELETE_SHARE_GROUP_STATE = _api(
    delete_share_group_state.DELETE_SHARE_GROUP_STATE_MESSAGES,
    lambda coordinator, key, _partition, reply: coordinator.delete(key, reply),
    delete_share_group_state.DeleteStateResult,
    _error_only(delete_share_group_state.PartitionResult),
)

READ_SHARE_GROUP_STATE_SUMMARY = _api(
    read_share_group_state_summary.READ_SHARE_GROUP_STATE_SUMMARY_MESSAGES,
    lambda coordinator, key, _partition, reply: coordinator.read_summary(key, reply),
    read_share_group_state_summary.ReadStateSummaryResult,
    _summary,
)
