"""The committed offsets of a node's groups, of any kind, as clients ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.group_messages import (
    CommitReply,
    CommitRequest,
    DeleteOffsetsReply,
    FetchedOffsets,
    GroupError,
    RemovalResult,
    TransactionalCommit,
    coordinator_error,
)
from purgatory_broker.groups.offset_manager import OffsetManager
from purgatory_broker.groups.shards import OffsetsStore, Shards
from purgatory_broker.log.verification import VerificationGuard


def _refuse_group_id() -> None:
    raise GroupError(ErrorCode.INVALID_GROUP_ID, "")


class GroupOffsets:
    """Answers the requests, also those that the offset manager refuses."""

    def __init__(
        self,
        shards: Shards,
        manager: OffsetManager,
        *,
        actions: ActionQueue,
        store: OffsetsStore,
        now_ms: Callable[[], int],
    ) -> None:
        self._shards = shards
        self._manager = manager
        self._actions = actions
        self._store = store
        self._now_ms = now_ms

    def commit(self, request: CommitRequest, reply: CommitReply) -> None:
        """Answer when the records are replicated. The caller checks whether topics exist."""
        self._commit(partial(self._manager.commit, request, reply), len(request.offsets), reply)

    def commit_transactional(self, request: TransactionalCommit, reply: CommitReply) -> None:
        """Answer when the records are replicated, after the transaction's coordinator agrees.

        The offsets are pending until `end_transaction`. The caller checks whether topics exist.
        """
        count = len(request.offsets)
        if not request.group_id:
            self._commit(_refuse_group_id, count, reply)
            return
        partition = self._shards.partition_for(request.group_id)
        if partition not in self._shards.by_partition:
            self._commit(partial(self._shards.shard_of, request.group_id), count, reply)
            return

        def verified(error: ErrorCode, guard: VerificationGuard | None) -> None:
            if error is not ErrorCode.NONE:
                reply((coordinator_error(error),) * count)
                return
            commit = partial(self._manager.commit_transactional, request, guard, reply)
            self._commit(commit, count, reply)

        self._store.verify(partition, request, verified)

    def _commit(self, commit: Callable[[], object], count: int, reply: CommitReply) -> None:
        with self._actions:
            try:
                commit()
            except GroupError as error:
                self._actions.add(partial(reply, (error.code,) * count))

    def end_transaction(self, partition: int, producer_id: int, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a producer, whose marker was written."""
        with self._actions:
            shard = self._shards.by_partition.get(partition)
            if shard is not None:
                shard.end_transaction(producer_id, self._now_ms(), is_commit=is_commit)

    def fetch(
        self,
        group_id: str,
        requested: Iterable[tuple[str, Sequence[int]]] | None,
        *,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> FetchedOffsets:
        """Return the replicated offsets of a group; None asks for all that it has committed.

        `member_id` and `member_epoch` are those of a member of the consumer protocol that asks.
        """
        return self._manager.fetch(
            group_id,
            requested,
            require_stable=require_stable,
            member_id=member_id,
            member_epoch=member_epoch,
        )

    def delete(
        self, group_id: str, partitions: Sequence[tuple[str, int]], reply: DeleteOffsetsReply
    ) -> None:
        """Answer an OffsetDelete request when its records are replicated."""
        with self._actions:
            try:
                self._manager.delete(group_id, partitions, reply)
            except GroupError as error:
                self._actions.add(partial(reply, RemovalResult(error.code)))

    def forget_topic(self, topic: str) -> None:
        self._manager.forget_topic(topic)
