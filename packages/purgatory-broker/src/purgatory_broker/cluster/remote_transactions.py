"""What the transaction coordinator and the leaders of partitions ask of each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster.node_requests import NodeRequests
from purgatory_broker.cluster.node_timers import NodeTimers
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.log.transaction_marker import TransactionMarker
from purgatory_broker.metadata.metadata_cache import MetadataCache
from purgatory_broker.metadata.topics import NO_LEADER, TRANSACTIONS_TOPIC, TopicPartition
from purgatory_broker.replication.transaction_markers import TransactionMarkers
from purgatory_broker.transactions.coordinator import TransactionCoordinator
from purgatory_broker.transactions.transaction import EPOCH_BUMP_SINCE
from purgatory_broker.transactions.transaction_messages import AddPartitions, error_for_all


class TransactionNode(Protocol):
    """What is needed of a node, at either end of a request."""

    node_id: int
    is_stopped: bool
    actions: ActionQueue
    timers: NodeTimers
    metadata: MetadataCache
    markers: TransactionMarkers
    transactions: TransactionCoordinator


@dataclass(slots=True, eq=False)
class RemotePartitionLeaders:
    """The leaders of a transaction's partitions; the `MarkerChannel` of the coordinator."""

    node: TransactionNode
    requests: NodeRequests
    #: Returns the node of a number, which is another one after a restart.
    find: Callable[[int], TransactionNode]

    def leader_of(self, partition: TopicPartition) -> int | None:
        metadata = self.node.metadata
        if not metadata.partition_exists(partition):
            return None
        leader, _ = metadata.leader_of(partition)
        return leader

    def send(
        self,
        node: int,
        marker: TransactionMarker,
        partitions: Sequence[TopicPartition],
        reply: Callable[[Mapping[TopicPartition, ErrorCode] | None], None],
    ) -> None:
        def serve(answer: Callable[[Mapping[TopicPartition, ErrorCode]], None]) -> bool:
            leader = self.find(node)
            if leader.is_stopped:
                return False
            with leader.actions:
                leader.markers.write(marker, partitions, answer)
            return True

        self.requests.send(self.node.node_id, node, serve, reply, partial(self._lost, reply))

    def _lost(self, reply: Callable[[None], None]) -> None:
        if not self.node.is_stopped:
            reply(None)

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.node.timers.call_later(delay_ms, action)


@dataclass(slots=True, eq=False)
class RemoteTransactionCoordinator:
    """The coordinators of producers' transactions; the `TransactionVerifier` of a node's logs.

    Kafka's AddPartitionsToTxnManager sends one request to a coordinator at a time, and answers
    NETWORK_EXCEPTION for a transaction that comes twice meanwhile. Here each has its own message.
    """

    node: TransactionNode
    requests: NodeRequests
    find: Callable[[int], TransactionNode]

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
        reply: Callable[[dict[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Answer with the error of each partition that may not be written, or NONE."""
        request = AddPartitions(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            partitions=frozenset(partitions),
            client_version=EPOCH_BUMP_SINCE if add else 0,
        )
        number = self.node.transactions.partition_for(request.transactional_id)
        leader, _ = self.node.metadata.leader_of(TopicPartition(TRANSACTIONS_TOPIC, number))
        if leader == NO_LEADER:
            reply(error_for_all(request.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return

        def serve(answer: Callable[[Mapping[TopicPartition, ErrorCode]], None]) -> bool:
            coordinator = self.find(leader)
            if coordinator.is_stopped:
                return False
            if add:
                coordinator.transactions.add_partitions(
                    request, lambda error: answer(error_for_all(request.partitions, error))
                )
            else:
                coordinator.transactions.verify_partitions(request, answer)
            return True

        def respond(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            with self.node.actions:
                reply({key: _producer_error(error) for key, error in errors.items()})

        def lost() -> None:
            if not self.node.is_stopped:
                with self.node.actions:
                    reply(error_for_all(request.partitions, ErrorCode.NETWORK_EXCEPTION))

        self.requests.send(self.node.node_id, leader, serve, respond, lost)


def _producer_error(error: ErrorCode) -> ErrorCode:
    """Return the error that producers expect of a log."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
