"""The transactions of a cluster's producers, as a test looks at them and waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from purgatory_broker.cluster.node import ClusterParts, Node
from purgatory_broker.cluster.waits import Condition
from purgatory_broker.metadata.topics import TRANSACTIONS_TOPIC, TopicPartition, java_partition
from purgatory_broker.transactions.transaction import (
    NO_TIMESTAMP,
    Transaction,
    TransactionState,
)
from request_purgatory.errors import InvalidArgumentError

_STATES = tuple(state.value for state in TransactionState if state is not TransactionState.DEAD)


@dataclass(frozen=True, slots=True)
class TransactionSnapshot:
    """A transactional id with its producer and its present or last transaction.

    Attributes:
        transactional_id: its id.
        state: Kafka's name of its state, such as "Ongoing".
        producer_id: the id of its producer.
        producer_epoch: the epoch of its producer; a producer with a lower one is fenced.
        timeout_ms: milliseconds after which a transaction is aborted.
        start_ms: when the present or last transaction began, in milliseconds since 1970; None if
            the producer has had none.
        coordinator: the number of its coordinator's node.
        partitions: the numbers of the partitions that are in the transaction, by topic. While the
            markers are written, those without one.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    coordinator: int
    partitions: dict[str, list[int]]


def transaction_snapshot(coordinator: int, transaction: Transaction) -> TransactionSnapshot:
    value = transaction.value
    partitions: dict[str, list[int]] = {}
    for key in sorted(value.partitions):
        partitions.setdefault(key.topic, []).append(key.partition)
    return TransactionSnapshot(
        transactional_id=transaction.transactional_id,
        state=value.state.value,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        start_ms=None if value.start_ms == NO_TIMESTAMP else value.start_ms,
        coordinator=coordinator,
        partitions=partitions,
    )


def coordinator_of(parts: ClusterParts, transactional_id: str) -> Node | None:
    """Return the node that coordinates an id, as the controller knows it; None if none runs."""
    number = java_partition(transactional_id, parts.settings.transaction_state_log_num_partitions)
    partition = parts.controller.partition(TopicPartition(TRANSACTIONS_TOPIC, number))
    if partition is None or partition.leader < 0 or parts.nodes[partition.leader].is_stopped:
        return None
    return parts.nodes[partition.leader]


def coordinated_transactions(parts: ClusterParts) -> Iterator[tuple[Node, Transaction]]:
    """Iterate over the transactional ids with their coordinators' nodes."""
    for node in parts.nodes:
        if not node.is_stopped:
            for transaction in node.transactions.transactions:
                if coordinator_of(parts, transaction.transactional_id) is node:
                    yield node, transaction


def transaction_condition(parts: ClusterParts, given: tuple[str, str]) -> Condition:
    transactional_id, state = given
    if state not in _STATES:
        raise InvalidArgumentError(
            "transaction", f"an id, and a state of {', '.join(_STATES)}", given
        )

    def find() -> Transaction | None:
        for _, transaction in coordinated_transactions(parts):
            if transaction.transactional_id == transactional_id:
                return transaction
        return None

    def holds() -> bool:
        transaction = find()
        return transaction is not None and transaction.state.value == state

    def describe() -> str:
        transaction = find()
        found = "there is no such id" if transaction is None else f"it is {transaction.state.value}"
        return f"expected transaction {transactional_id!r} to be {state}, {found}"

    return Condition(("transaction", transactional_id), holds, describe)
