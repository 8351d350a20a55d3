"""Asks the transaction coordinator whether a partition belongs to a producer's transaction.

The first batch of each transaction in a partition waits for the answer (KIP-890). Otherwise a late
batch would begin a transaction that the coordinator does not know of, and that nobody ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.verification import VerificationGuard
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.replica import ReplicaError
from purgatory_broker.replication.replica_manager import ReplicaManager

_Errors: TypeAlias = dict[TopicPartition, ErrorCode]
#: The partitions that must not be appended to, and what the appends to the others have to show.
VerificationReply: TypeAlias = Callable[[_Errors, Mapping[TopicPartition, VerificationGuard]], None]


class TransactionVerifier(Protocol):
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
        """Ask whether partitions belong to a transaction, or add them to it.

        Reply once with the errors, later or at once; a partition without one may be appended to.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBegin:
    """What a producer appends to partitions, with the first sequence in each."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    sequences: Mapping[TopicPartition, int]
    #: Whether partitions are added to the transaction, as since Kafka 4.0, or must be in it.
    adds: bool


class TransactionVerifications:
    def __init__(
        self,
        replicas: ReplicaManager,
        wall_ms: Callable[[], int],
        verifier: TransactionVerifier,
    ) -> None:
        self._replicas = replicas
        self._wall_ms = wall_ms
        self._verifier = verifier

    def verify(self, begin: TransactionBegin, reply: VerificationReply) -> None:
        """Ask about the partitions where the producer has no transaction yet; reply once."""
        self._verify(begin, reply, self._replicas.now_ms(), 0)

    def _verify(
        self, begin: TransactionBegin, reply: VerificationReply, since_ms: int, retries: int
    ) -> None:
        errors: _Errors = {}
        guards: dict[TopicPartition, VerificationGuard] = {}
        for key, sequence in begin.sequences.items():
            try:
                guard = self._start(begin, key, sequence)
            except (ReplicaError, RecordError) as error:
                errors[key] = error.code
                continue
            if guard is not None:
                guards[key] = guard
        if not guards:
            reply(errors, guards)
            return

        def verified(answer: dict[TopicPartition, ErrorCode]) -> None:
            if self._replicas.is_closed:
                return
            refused = {key: code for key, code in answer.items() if code is not ErrorCode.NONE}
            errors.update(refused)
            if self._may_retry(begin, errors, since_ms):
                # Kafka always waits this long. But the nodes of a process often answer earlier.
                longest_ms = self._replicas.settings.add_partitions_to_txn_retry_backoff_ms
                again = partial(self._verify_again, begin, reply, since_ms, retries + 1)
                delay_ms = min(2**retries, longest_ms)
                asyncio.get_running_loop().call_later(delay_ms / 1_000, again)
                return
            with self._replicas.actions:
                reply(errors, guards)

        self._verifier.verify(
            begin.transactional_id,
            begin.producer_id,
            begin.producer_epoch,
            list(guards),
            add=begin.adds,
            reply=verified,
        )

    def _start(
        self, begin: TransactionBegin, key: TopicPartition, sequence: int
    ) -> VerificationGuard | None:
        producers = self._replicas.require_leader(key).log.producers
        return producers.start_verification(
            begin.producer_id, begin.producer_epoch, sequence, self._wall_ms(), adds=begin.adds
        )

    def _may_retry(self, begin: TransactionBegin, errors: _Errors, since_ms: int) -> bool:
        """Return whether the producer's last transaction may soon have ended.

        A producer need not wait for the markers of a transaction before it begins the next one.
        """
        longest_ms = self._replicas.settings.add_partitions_to_txn_retry_backoff_max_ms
        is_early = self._replicas.now_ms() - since_ms < longest_ms
        return begin.adds and is_early and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()

    def _verify_again(
        self, begin: TransactionBegin, reply: VerificationReply, since_ms: int, retries: int
    ) -> None:
        if self._replicas.is_closed:
            return
        with self._replicas.actions:
            self._verify(begin, reply, since_ms, retries)
