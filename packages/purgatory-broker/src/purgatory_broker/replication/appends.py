"""Appends to the partitions that a node leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.log_errors import BatchFormatError, RecordError
from purgatory_broker.log.verification import VerificationGuard
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.delayed_partitions import DelayedPartitions, ProducedPartition
from purgatory_broker.replication.replica import Replica, ReplicaError
from purgatory_broker.replication.replica_manager import ReplicaManager


class DelayedProduce(DelayedPartitions[ProducedPartition]):
    """Waits until each partition's high watermark passes the records, or its leader is gone."""

    __slots__ = ()

    def result(self, partition: ProducedPartition, replica: Replica) -> ErrorCode | None:
        if replica.high_watermark < partition.required_offset:
            return None
        if not replica.may_have_enough_replicas:
            # The records are in the log, but the in-sync replicas have become fewer than
            # `min.insync.replicas` since. The client decides whether to send them again.
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE


#: Errors with which Kafka's Produce response has no log start offset.
_WITHOUT_LOG_START = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
#: Of appends that begin no transaction.
NO_GUARDS: Mapping[TopicPartition, VerificationGuard] = {}
#: The most invalid records that the response to one request names. Kafka has no such limit; a
#: request of 100 MB may have millions of invalid records.
MAX_RECORD_ERRORS = 50_000


class Appends:
    """Appends records, and lets requests wait until the in-sync replicas have them."""

    def __init__(self, replicas: ReplicaManager, wall_ms: Callable[[], int]) -> None:
        self._replicas = replicas
        self._wall_ms = wall_ms

    def append(
        self,
        acks: int,
        timeout_ms: int,
        records: list[tuple[TopicPartition, bytes | memoryview | None]],
        reply: Callable[[list[ProducedPartition]], None],
        *,
        internal: bool = False,
        guards: Mapping[TopicPartition, VerificationGuard] = NO_GUARDS,
    ) -> DelayedProduce | None:
        """Call `reply` at once, or for acks -1 when in-sync replicas have the records.

        `guards` are of the partitions where a producer's transaction begins; they come from
        `TransactionVerifications`.
        """
        produced = []
        remaining = MAX_RECORD_ERRORS
        for key, batch in records:
            guard = guards.get(key) if guards else None
            partition = self._append(key, batch, acks, guard, internal=internal)
            partition.record_errors = partition.record_errors[:remaining]
            remaining -= len(partition.record_errors)
            produced.append(partition)
        if acks == -1 and self._replicas.recorder is not None:
            self._replicas.recorder.produced(self._replicas.node_id, timeout_ms, produced)
        if acks != -1 or not any(partition.pending for partition in produced):
            reply(produced)
            return None
        operation = DelayedProduce(timeout_ms, produced, self._replicas.find, reply)
        keys = [partition.key for partition in produced]
        self._replicas.purgatories.produce.try_complete_else_watch(operation, keys)
        return None if operation.is_completed else operation

    def _append(
        self,
        key: TopicPartition,
        batch: bytes | memoryview | None,
        acks: int,
        guard: VerificationGuard | None,
        *,
        internal: bool,
    ) -> ProducedPartition:
        produced = ProducedPartition(key)
        try:
            replica = self._replicas.require_leader(key)
            if acks == -1 and not replica.has_enough_replicas:
                raise ReplicaError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"The size of the current ISR {replica.isr} is insufficient to satisfy the "
                    f"min.isr requirement of {replica.min_insync_replicas} for partition {key}",
                )
            appended = replica.log.append_as_leader(
                batch or b"", replica.leader_epoch, self._wall_ms(), internal=internal, guard=guard
            )
        except (ReplicaError, RecordError) as error:
            produced.error = error.code
            produced.message = str(error)
            if isinstance(error, RecordError):
                produced.record_errors = error.record_errors
            if error.code not in _WITHOUT_LOG_START and not isinstance(error, BatchFormatError):
                produced.log_start_offset = self._replicas.replicas[key].log.log_start_offset
            return produced
        produced.base_offset = appended.base_offset
        produced.log_append_time_ms = appended.log_append_time_ms
        produced.log_start_offset = replica.log.log_start_offset
        produced.required_offset = appended.last_offset + 1
        produced.replica = replica
        if not appended.duplicate:
            self._replicas.appended(replica, len(batch or b""))
        # With no other replica in sync the records are committed now.
        produced.pending = acks == -1 and not (
            replica.high_watermark >= produced.required_offset and replica.may_have_enough_replicas
        )
        return produced
