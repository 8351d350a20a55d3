"""The requests that commit, fetch and delete offsets."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from kafka.protocol.producer import TxnOffsetCommitRequest

from tests.broker.groups.captured_response import CapturedResponse, Sender
from tests.broker.groups.classic_requests import GROUP


class OffsetRequests(Sender):
    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        metadata: str | None = "note",
        leader_epoch: int = 3,
        retention_ms: int = -1,
        group_id: str = GROUP,
        version: int = 9,
    ) -> CapturedResponse:
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_ms,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        topic.OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for (name, index), offset in offsets.items()
            ],
        )
        return self.send(request, version)

    def commit_in_transaction(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        producer: tuple[int, int] = (7, 0),
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        metadata: str = "note",
        group_id: str = GROUP,
        version: int = 5,
    ) -> CapturedResponse:
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        request = TxnOffsetCommitRequest(
            transactional_id="producer",
            group_id=group_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        topic.TxnOffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_leader_epoch=3,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for (name, index), offset in offsets.items()
            ],
        )
        return self.send(request, version)

    def fetch(
        self,
        topics: dict[str, list[int]] | None,
        *,
        group_id: str = GROUP,
        version: int = 9,
        stable: bool = False,
    ) -> Any:
        """Fetch committed offsets; return the group's part of the response since version 8."""
        request = OffsetFetchRequest
        if version < 8:
            kind = request.OffsetFetchRequestTopic
            requested = (
                None
                if topics is None
                else [kind(name=name, partition_indexes=each) for name, each in topics.items()]
            )
            message = request(group_id=group_id, topics=requested, require_stable=stable)
        else:
            kind = request.OffsetFetchRequestGroup.OffsetFetchRequestTopics
            requested = (
                None
                if topics is None
                else [kind(name=name, partition_indexes=each) for name, each in topics.items()]
            )
            message = request(
                groups=[request.OffsetFetchRequestGroup(group_id=group_id, topics=requested)],
                require_stable=stable,
            )
        response = self.send(message, version).response
        return response if version < 8 else response.groups[0]

    def committed(self, *, group_id: str = GROUP, version: int = 9) -> dict[tuple[str, int], int]:
        """Return all committed offsets of the group."""
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in self.fetch(None, group_id=group_id, version=version).topics
            for each in topic.partitions
        }

    def delete_offsets(
        self, topic: str, *partitions: int, group_id: str = GROUP
    ) -> CapturedResponse:
        kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
        parts = [kind.OffsetDeleteRequestPartition(partition_index=each) for each in partitions]
        request = OffsetDeleteRequest(
            group_id=group_id, topics=[kind(name=topic, partitions=parts)]
        )
        return self.send(request, 0)
