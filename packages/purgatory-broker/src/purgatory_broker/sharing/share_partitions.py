"""The share partitions of a node: those of the partitions that it leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.replica import ReplicaError
from purgatory_broker.replication.replica_manager import ReplicaManager
from purgatory_broker.sharing.acquisition_locks import AcquisitionLocks
from purgatory_broker.sharing.group_settings import ShareGroupSettings
from purgatory_broker.sharing.leader_state import LedPartition, ShareStates, leader_error
from purgatory_broker.sharing.records import (
    AcknowledgementBatch,
    AcquisitionLock,
    ShareError,
    check_acknowledgements,
)
from purgatory_broker.sharing.share_coordinator import StateResult
from purgatory_broker.sharing.share_partition import SharePartition
from purgatory_broker.sharing.spans import Update
from purgatory_broker.sharing.state import ShareKey, ShareState
from request_purgatory.aio import Purgatory

logger = logging.getLogger(__name__)

_FENCED = (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH)
#: The error of each partition: called once, when everything is stored.
ErrorsReply = Callable[[Mapping[TopicPartition, ErrorCode]], None]


class SharePartitions:
    """The share partitions of a node, from their first fetch until it leads them no more.

    Changes are stored at the share coordinators before they take effect. All calls are inside of a
    block of `actions`.
    """

    def __init__(
        self,
        *,
        replicas: ReplicaManager,
        actions: ActionQueue,
        purgatory: Purgatory,
        locks: AcquisitionLocks,
        states: ShareStates,
        groups: ShareGroupSettings,
        now_ms: Callable[[], int],
    ) -> None:
        """`now_ms` is the time of day in milliseconds since 1970."""
        self.purgatory = purgatory
        self.actions = actions
        self._replicas = replicas
        self._locks = locks
        self._states = states
        self._groups = groups
        self._now_ms = now_ms
        self._led: dict[tuple[str, TopicPartition], LedPartition] = {}
        #: Those that are not used any more, and have writes without an answer.
        self._ending: dict[tuple[str, TopicPartition], LedPartition] = {}

    # -- share partitions

    def find_or_load(self, group_id: str, key: TopicPartition) -> LedPartition | ErrorCode:
        """Return a share partition, which may still be read; or why there is none."""
        try:
            replica = self._replicas.require_leader(key)
        except ReplicaError as error:
            self.forget(key)
            return error.code
        led = self._led.get((group_id, key))
        if led is not None:
            if led.replica is replica and led.error is ErrorCode.NONE:
                return led
            self._drop(led, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        share_key = ShareKey(group_id, replica.topic_id, key.partition)
        led = LedPartition(share_key, key, replica, replica.leader_epoch)
        self._led[led.watch_key] = led
        former = self._ending.get(led.watch_key)
        if former is None:
            self._read(led)
        else:
            former.on_written = partial(self._read, led)
        return led

    def _read(self, led: LedPartition) -> None:
        self._states.read(led.key, led.leader_epoch, partial(self._loaded, led))

    def _loaded(self, led: LedPartition, result: StateResult) -> None:
        with self.actions:
            if led.error is not ErrorCode.NONE:
                return
            if result.error is not ErrorCode.NONE:
                logger.warning("cannot read the state of %s: %s", led.key.text, result.error.name)
                self._drop(led, leader_error(result.error))
                return
            start = result.state.start_offset
            if start < 0:
                try:
                    start = self._groups.start_offset(led.key.group_id, led.replica, self._now_ms())
                except RecordError as error:
                    self._drop(led, error.code)
                    return
            led.state_epoch = result.state.state_epoch
            led.records = SharePartition(
                start,
                result.state.batches,
                max_in_flight=self._groups.max_in_flight,
                max_delivery_count=self._groups.max_delivery_count,
                on_lock_end=self._locks.end,
            )
            # At once, before the next state is taken: a fetch has what is read first, as in Kafka.
            self.purgatory.notify(led.watch_key)

    def forget(self, key: TopicPartition) -> None:
        """Forget a partition that this node leads no more, or whose topic is deleted."""
        for led in [led for led in self._led.values() if led.topic_partition == key]:
            if not led.is_led or self._replicas.find(key) is not led.replica:
                self._drop(led, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def forget_group(self, group_id: str) -> None:
        """Forget a group without members here, whose offsets an administrator may change."""
        for led in [led for led in self._led.values() if led.key.group_id == group_id]:
            self._drop(led, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _drop(self, led: LedPartition, error: ErrorCode) -> None:
        led.error = error
        if self._led.get(led.watch_key) is led:
            del self._led[led.watch_key]
        if led.is_writing:
            self._ending[led.watch_key] = led
        if led.records is not None:
            for lock in {span.lock for span in led.records if span.lock is not None}:
                self._locks.end(lock)
        self._notify(led)

    def _notify(self, led: LedPartition) -> None:
        if self.purgatory.num_watchers(led.watch_key):
            self.actions.add(partial(self.purgatory.notify, led.watch_key))

    # -- acquired records

    def start_lock(self, led: LedPartition, lock: AcquisitionLock) -> None:
        duration_ms = self._groups.lock_duration_ms(led.key.group_id)
        self._locks.start(lock, duration_ms, partial(self._lock_expired, led, lock))

    def _lock_expired(self, led: LedPartition, lock: AcquisitionLock) -> None:
        if led.records is None or led.error is not ErrorCode.NONE:
            return
        logger.info(
            "the lock of member %s on %d records of %s has expired",
            lock.member_id,
            lock.num_records,
            led.key.text,
        )
        self._store_expired(led, led.records.expire(lock))

    def _store_expired(self, led: LedPartition, update: Update) -> None:
        """Store what has been released; as in Kafka, it stays so if that fails."""
        if update.batches:
            self._write(led, update, lambda _error: None)
        self._notify(led)

    def acknowledge(
        self,
        group_id: str,
        member_id: str,
        acknowledged: Mapping[TopicPartition, list[AcknowledgementBatch]],
        reply: ErrorsReply,
        *,
        may_renew: bool,
    ) -> None:
        """Accept, release, reject or renew what a member has acquired."""

        def change(led: LedPartition, records: SharePartition) -> Update:
            batches = acknowledged[led.topic_partition]
            check_acknowledgements(batches, may_renew=may_renew)
            return records.acknowledge(member_id, batches)

        self._change(group_id, acknowledged, change, reply)

    def release(
        self, group_id: str, member_id: str, keys: Iterable[TopicPartition], reply: ErrorsReply
    ) -> None:
        """Release all that a member has acquired of some partitions: its session has ended."""

        def change(_led: LedPartition, records: SharePartition) -> Update:
            return records.release(member_id)

        self._change(group_id, keys, change, reply)

    def _change(
        self,
        group_id: str,
        keys: Iterable[TopicPartition],
        change: Callable[[LedPartition, SharePartition], Update],
        reply: ErrorsReply,
    ) -> None:
        wanted = list(dict.fromkeys(keys))
        errors: dict[TopicPartition, ErrorCode] = {}

        def done(key: TopicPartition, error: ErrorCode) -> None:
            errors[key] = error
            if len(errors) == len(wanted):
                reply({each: errors[each] for each in wanted})

        if not wanted:
            reply({})
        for key in wanted:
            led = self._led.get((group_id, key))
            if led is None:
                done(key, self._missing(key))
            elif led.records is None:
                done(key, ErrorCode.INVALID_RECORD_STATE)
            else:
                try:
                    update = change(led, led.records)
                except ShareError as error:
                    done(key, error.code)
                else:
                    self._store(led, led.records, update, partial(done, key))

    def _missing(self, key: TopicPartition) -> ErrorCode:
        """Return why a share partition that nobody fetches can't be changed."""
        try:
            self._replicas.require_leader(key)
        except ReplicaError as error:
            return error.code
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _store(
        self,
        led: LedPartition,
        records: SharePartition,
        update: Update,
        done: Callable[[ErrorCode], None],
    ) -> None:
        if update.renewed is not None:
            self.start_lock(led, update.renewed)
        if not update.batches:
            done(ErrorCode.NONE)
            return

        def stored(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                records.commit(update)
                self._notify(led)
            else:
                for expired in records.roll_back(update):
                    self._store_expired(led, expired)
            done(error)

        self._write(led, update, stored)

    def _write(
        self,
        led: LedPartition,
        update: Update,
        done: Callable[[ErrorCode], None],
    ) -> None:
        led.waiting.append((update, done))
        if not led.is_writing:
            self._write_waiting(led)

    def _write_waiting(self, led: LedPartition) -> None:
        """Write what waits as one update.

        One after the other: a write that is sent again must not take back a later start offset.
        """
        writes, led.waiting = led.waiting, []
        led.is_writing = True

        def written(result: StateResult) -> None:
            with self.actions:
                if result.error in _FENCED:
                    self._drop(led, leader_error(result.error))
                led.is_writing = False
                for _, done in writes:
                    done(leader_error(result.error))
                if led.waiting and not led.is_writing:
                    self._write_waiting(led)
                if not led.is_writing and self._ending.get(led.watch_key) is led:
                    del self._ending[led.watch_key]
                    led.on_written()

        state = ShareState(
            state_epoch=led.state_epoch,
            leader_epoch=led.leader_epoch,
            start_offset=max(update.start_offset for update, _ in writes),
            batches=tuple(batch for update, _ in writes for batch in update.batches),
        )
        self._states.write(led.key, state, written)

    # -- inspection

    def __iter__(self) -> Iterator[LedPartition]:
        return iter(list(self._led.values()))

    def abandon(self) -> None:
        """Forget all share partitions, after the node's stop."""
        self._led.clear()
        self._ending.clear()
        self._locks.abandon()
