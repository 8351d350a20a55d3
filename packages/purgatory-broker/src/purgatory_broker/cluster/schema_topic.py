"""The topic of the schema registry: `_schemas`, on the cluster itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster.conditions import leader_replica
from purgatory_broker.cluster.node import ClusterParts, Node
from purgatory_broker.cluster.readable_records import readable_records
from purgatory_broker.cluster.replicated_records import ReplicatedSchemas
from purgatory_broker.metadata.topics import ControllerError, Partition, TopicPartition
from purgatory_broker.schema_registry.registry_error import RegistryError
from purgatory_broker.schema_registry.registry_state import KeyAndValue

SCHEMAS_TOPIC = "_schemas"
#: Confluent's `kafkastore.timeout.ms`.
_TIMEOUT_MS = 500
#: For how long an append is tried again, as after a change of the leader.
_RETRY_S = 5.0
_BACKOFF_S = 0.05
#: The error after which the records may yet be replicated; later they would be there twice, which
#: means the same.
_STORE_ERROR = 50001


class SchemaTopic:
    """The `SchemaStore` of the registry."""

    def __init__(self, parts: ClusterParts) -> None:
        self._parts = parts

    @property
    def epoch(self) -> object:
        topic = self._parts.controller.topics.get(SCHEMAS_TOPIC)
        return None if topic is None else topic.topic_id

    def create(self) -> None:
        """Create the topic; no-op if it exists."""
        if SCHEMAS_TOPIC not in self._parts.controller.topics:
            self._parts.controller.topic_changes.create(
                SCHEMAS_TOPIC, partitions=1, configs={"cleanup.policy": "compact"}, internal=True
            )

    def _partition(self) -> Partition | None:
        return self._parts.controller.partition(TopicPartition(SCHEMAS_TOPIC, 0))

    def read(self, offset: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """Iterate over the records; none are new while the partition has no leader."""
        partition = self._partition()
        replica = None if partition is None else leader_replica(self._parts.nodes, partition)
        if replica is not None:
            for record in readable_records(replica, 0, offset):
                yield record.offset, record.key, record.value

    async def append(self, records: Sequence[KeyAndValue]) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + _RETRY_S
        while (code := await self._try_append(list(records))) is not ErrorCode.NONE:
            if loop.time() > until:
                raise RegistryError(
                    _STORE_ERROR,
                    f"Error in the backend data store: {SCHEMAS_TOPIC} took no record for "
                    f"{_RETRY_S:g} s ({code.name})",
                )
            await asyncio.sleep(_BACKOFF_S)

    async def _try_append(self, records: list[KeyAndValue]) -> ErrorCode:
        try:
            self.create()
        except ControllerError as error:
            return error.code
        partition = self._partition()
        leader = None if partition is None else self._leader(partition)
        if leader is None:
            return ErrorCode.LEADER_NOT_AVAILABLE
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def reply(code: ErrorCode) -> None:
            if not done.done():
                done.set_result(code)

        appends = ReplicatedSchemas(leader.appends, leader.actions, leader.wall_ms)
        appends.append(TopicPartition(SCHEMAS_TOPIC, 0), records, _TIMEOUT_MS, reply)
        # A node that stops in the meantime does not reply.
        await asyncio.wait((done, leader.halted), return_when=asyncio.FIRST_COMPLETED)
        return done.result() if done.done() else ErrorCode.LEADER_NOT_AVAILABLE

    def _leader(self, partition: Partition) -> Node | None:
        replica = leader_replica(self._parts.nodes, partition)
        return self._parts.nodes[partition.leader] if replica is not None else None
