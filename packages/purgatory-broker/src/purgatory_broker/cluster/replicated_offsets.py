"""The group coordinator's store: the partitions of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.record import build_batch
from purgatory_broker.metadata.topics import OFFSETS_TOPIC, TopicPartition
from purgatory_broker.replication.appends import Appends
from purgatory_broker.replication.delayed_produce import ProducedPartition
from purgatory_broker.wire.error_code import ErrorCode

_ACKS_ALL = -1


class ReplicatedOffsets:
    """Appends the coordinator's records with acks=all, as Kafka's coordinator does."""

    def __init__(
        self, appends: Appends, actions: ActionQueue, timeout_ms: int, now_ms: Callable[[], int]
    ) -> None:
        self._appends = appends
        self._actions = actions
        self._timeout_ms = timeout_ms
        self._now_ms = now_ms

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        done: Callable[[ErrorCode], None],
    ) -> None:
        def reply(produced: list[ProducedPartition]) -> None:
            done(produced[0].error)

        batch = build_batch(records, self._now_ms())
        key = TopicPartition(OFFSETS_TOPIC, partition)
        # A heartbeat that expires appends outside of a request: the block runs the wake-ups then.
        with self._actions:
            self._appends.append(_ACKS_ALL, self._timeout_ms, [(key, batch)], reply, internal=True)


def stored_records(log: PartitionLog) -> Iterator[tuple[bytes, bytes | None]]:
    for record in log.records():
        if record.key is not None:
            yield record.key, record.value
