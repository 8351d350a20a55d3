"""The log of a group coordinator, which the test controls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.group_messages import Producer, TransactionalCommit
from purgatory_broker.groups.shards import NO_PRODUCER_ID, StoredMarker, StoredRecord
from purgatory_broker.log.verification import VerificationGuard

PARTITIONS = 4


class OffsetsLog:
    """The offsets topic. Appends complete immediately or, if `is_held`, when released.

    Attributes:
        error: The error with which appends complete.
        failure: Raised by every append; None to append.
    """

    def __init__(self) -> None:
        self.records: dict[int, list[StoredRecord | StoredMarker]] = {
            each: [] for each in range(PARTITIONS)
        }
        self.error = ErrorCode.NONE
        self.is_held = False
        self.held_appends: deque[Callable[[], None]] = deque()
        self.failure: Exception | None = None
        #: With which the coordinator of transactions answers.
        self.verification = ErrorCode.NONE
        #: The partitions and commits that were verified.
        self.verified: list[tuple[int, TransactionalCommit]] = []

    def verify(
        self,
        partition: int,
        commit: TransactionalCommit,
        reply: Callable[[ErrorCode, VerificationGuard | None], None],
    ) -> None:
        self.verified.append((partition, commit))
        reply(self.verification, VerificationGuard())

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        done: Callable[[ErrorCode], None],
        producer: Producer | None,
    ) -> None:
        if self.failure is not None:
            raise self.failure
        error = self.error
        if error is ErrorCode.NONE:
            producer_id = NO_PRODUCER_ID if producer is None else producer.producer_id
            self.records[partition] += [
                StoredRecord(key, value, producer_id) for key, value in records
            ]
        if self.is_held:
            self.held_appends.append(lambda: done(error))
        else:
            done(error)

    def release(self, count: int | None = None) -> None:
        """Complete the `count` oldest appends that are held, or all."""
        num_held = len(self.held_appends)
        for _ in range(num_held if count is None else min(count, num_held)):
            self.held_appends.popleft()()
