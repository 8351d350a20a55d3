"""A node's requests to the controller about its partitions and producers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster.network import CONTROLLER, Network
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.metadata.controller import Controller
from purgatory_broker.metadata.partition_leaders import AlterPartitionRequest
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker.replication.replica import Replica
from purgatory_broker.replication.replica_manager import ReplicaManager


class ControlledNode(Protocol):
    """What is needed of a node."""

    node_id: int
    is_stopped: bool
    actions: ActionQueue
    replicas: ReplicaManager
    controller: Controller

    @property
    def reaches_controller(self) -> bool: ...


@dataclass(frozen=True, slots=True, eq=False)
class ControllerRequests:
    node: ControlledNode
    network: Network

    def new_producer_ids(self) -> range:
        if not self.node.reaches_controller:
            raise ControllerError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the controller is out of reach"
            )
        return self.node.controller.new_producer_ids()

    def alter_partition(self, replica: Replica, isr: list[int]) -> None:
        """No-op while an earlier request is pending, or if the controller is out of reach."""
        if replica.pending_isr is not None or not self.node.reaches_controller:
            return
        replica.pending_isr = isr
        request = AlterPartitionRequest(
            replica.key,
            replica.topic_id,
            self.node.node_id,
            replica.leader_epoch,
            replica.partition_epoch,
            isr,
        )
        controller, network = self.node.controller, self.network

        def handle_request() -> None:
            if not controller.leaders.alter_partition(request):
                network.send(CONTROLLER, self.node.node_id, handle_refusal)

        def handle_refusal() -> None:
            # A granted request has no response: the partition's notification, which is sent first,
            # ends it.
            if self.node.is_stopped or replica.pending_isr is not isr:
                return
            replica.pending_isr = None
            with self.node.actions:
                self.node.replicas.advance_high_watermark(replica)

        network.send(self.node.node_id, CONTROLLER, handle_request)
