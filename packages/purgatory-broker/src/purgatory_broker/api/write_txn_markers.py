"""WriteTxnMarkers: append the markers that end transactions."""

from __future__ import annotations

from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.write_txn_markers import (
    WRITE_TXN_MARKERS_MESSAGES,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from purgatory_broker.api.access import is_allowed, require
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.log.transaction_marker import TransactionMarker
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext


def _write_txn_markers(
    broker: BrokerApi, context: RequestContext, request: WriteTxnMarkersRequest
) -> None:
    if not is_allowed(broker, context, AclOperation.ALTER, AclResource.CLUSTER):
        require(broker, context, AclOperation.CLUSTER_ACTION, AclResource.CLUSTER)
    #: The results of all markers of a producer, by its id; none for markers without partitions.
    results: dict[int, dict[TopicPartition, ErrorCode]] = {}
    waiting = set(range(len(request.markers)))

    def written(number: int, errors: dict[TopicPartition, ErrorCode]) -> None:
        if errors:
            results.setdefault(request.markers[number].producer_id, {}).update(errors)
        waiting.discard(number)
        if not waiting:
            context.reply(_response(results))

    if not waiting:
        context.reply(_response(results))
    for number, wanted in enumerate(request.markers):
        marker = TransactionMarker(
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.transaction_result,
            wanted.coordinator_epoch,
        )
        partitions = [
            TopicPartition(topic.name, index)
            for topic in wanted.topics
            for index in topic.partition_indexes
        ]
        broker.markers.write(marker, partitions, partial(written, number))


def _response(results: dict[int, dict[TopicPartition, ErrorCode]]) -> WriteTxnMarkersResponse:
    markers = []
    for producer_id, errors in results.items():
        topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
        for key, code in errors.items():
            topics.setdefault(key.topic, []).append(
                WritableTxnMarkerPartitionResult(partition_index=key.partition, error_code=code)
            )
        markers.append(
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
            )
        )
    return WriteTxnMarkersResponse(markers=markers)


WRITE_TXN_MARKERS = ServedApi(
    messages=WRITE_TXN_MARKERS_MESSAGES, versions=(1, 1), handle=_write_txn_markers
)
