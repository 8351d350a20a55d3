"""The commands by which a test looks at a cluster, and waits for its state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.registry import find_api
from purgatory_broker.cluster._commands.command_group import CommandGroup, command
from purgatory_broker.cluster.client_request import (
    REQUESTS_PER_SLICE,
    ClientRequest,
    client_request,
)
from purgatory_broker.cluster.conditions import Conditions, coordinated_groups, leader_replica
from purgatory_broker.cluster.json_values import slices
from purgatory_broker.cluster.readable_records import readable_records
from purgatory_broker.cluster.snapshots import (
    GroupSnapshot,
    TopicRecord,
    snapshot,
    take_records,
)
from purgatory_broker.cluster.summary import cluster_summary
from purgatory_broker.cluster.transaction_snapshots import transaction_condition
from purgatory_broker.cluster.waits import Condition
from purgatory_broker.metadata.topics import ControllerError, Partition
from purgatory_broker.replication.replica import Replica
from request_purgatory.errors import InvalidArgumentError


class InspectionCommands(CommandGroup):
    @command
    async def records(
        self,
        topic: str,
        *,
        partition: int | None = None,
        offset: int = 0,
        limit: int | None = None,
        read_committed: bool = False,
    ) -> list[TopicRecord]:
        """Return the records of a topic that consumers can read: those below the high watermarks.

        Without a limit, more than 10,000 records or 16 MiB of them are refused. The markers of
        transactions are not records.

        Args:
            topic: the topic's name.
            partition: only the records of the partition with this number.
            offset: the offset to begin at in each partition; -5 is the newest five of each.
            limit: number of records at most, in the order of partitions and offsets.
            read_committed: leave out what a consumer with this isolation level does not read: the
                records of aborted transactions, and all after the first open one.

        Returns:
            For each record `partition`, `offset`, `timestamp_ms`, `key`, `value`, `headers` and
            `producer_id`, by partition and offset. In JSON, keys and values are text where they are
            UTF-8, and `{"base64": "..."}` otherwise.

        Raises:
            InvalidArgumentError: there is no such partition, the limit is below 1, or there are too
                many records.
        """
        if partition is None:
            partitions = self._topic(topic).partitions
        else:
            partitions = [self._require_partition(topic, partition)]
        leaders = [(state.index, self._require_leader(state)) for state in partitions]
        records = (
            record
            for number, replica in leaders
            for record in readable_records(replica, number, offset, read_committed=read_committed)
        )
        return await take_records(records, limit)

    @command
    def high_watermark(self, topic: str, partition: int = 0) -> int:
        """Return the high watermark of a partition's leader: consumers read the records before it.

        Args:
            topic: the topic's name.
            partition: the partition's number.

        Raises:
            InvalidArgumentError: there is no such partition.
        """
        return self._require_leader(self._require_partition(topic, partition)).high_watermark

    def _require_partition(self, topic: str, partition: int) -> Partition:
        partitions = self._topic(topic).partitions
        if not 0 <= partition < len(partitions):
            raise InvalidArgumentError(
                "partition", f"between 0 and {len(partitions) - 1} for topic {topic!r}", partition
            )
        return partitions[partition]

    def _require_leader(self, partition: Partition) -> Replica:
        replica = leader_replica(self.nodes, partition)
        if replica is None:
            raise ControllerError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{partition.key} has no leader that runs"
            )
        return replica

    @command
    def groups(self) -> dict[str, GroupSnapshot]:
        """Return the groups of all coordinators, with their members and committed offsets.

        Returns:
            By group id `group_id`, `state`, `generation`, `protocol_type`, `protocol`,
            `coordinator`, `leader_id`, `members` (each with `member_id`, `instance_id`,
            `client_id`, `client_host` and its `assignment`, by topic), and the committed `offsets`
            by topic and partition. Unlike Kafka's ListGroups this includes groups that are forming.
        """
        return {
            group.group_id: snapshot(node.groups, group)
            for node, group in coordinated_groups(self.controller, self.nodes)
        }

    @command
    async def requests(
        self, *, api: str | None = None, client_id: str | None = None
    ) -> list[ClientRequest]:
        """Return the last requests of clients with their responses, oldest first.

        Remembered are at most 10,000 requests of all nodes and clients, and 16 MiB of them and
        their responses.

        Args:
            api: only requests of this API, by Kafka's name, such as "Produce".
            client_id: only requests of clients with this `client.id`.

        Returns:
            For each request `node`, `api`, `version`, `client_id`, `correlation_id`, `received_ms`,
            `answered_ms` (None while it waits), and `request` and `response` with the fields of
            Kafka's protocol; None instead of more than 1 MiB. Fields of bytes are bytes, and
            `{"base64": "..."}` in JSON.
        """
        name = None if api is None else find_api(api).name
        logged = [
            logged
            for logged in self._parts.request_log.requests
            if name in (None, logged.header.api.name)
            and client_id in (None, logged.header.client_id or "")
        ]
        client_requests: list[ClientRequest] = []
        async for part in slices(logged, REQUESTS_PER_SLICE):
            client_requests += map(client_request, part)
        return client_requests

    @command
    def summary(self) -> str:
        """Return the cluster's state and its last requests as text, for a person.

        It has the nodes, topics, groups, transactions and faults, and the last 20 requests with
        their errors. The pytest plugin shows it for each test that fails.
        """
        return cluster_summary(self._parts)

    @command
    def forget_requests(self) -> None:
        """Forget the requests of clients until now; `requests` and `wait_for` begin anew.

        So a test waits for the requests of its next step, whatever came before.
        """
        self._parts.request_log.clear()

    @command
    async def wait_for(
        self,
        *,
        records: tuple[str, int] | None = None,
        committed_records: tuple[str, int] | None = None,
        isr: tuple[str, int, list[int]] | None = None,
        group_stable: str | None = None,
        assignment: tuple[str, str, str, list[int]] | None = None,
        committed: tuple[str, str, int, int] | None = None,
        lag: tuple[str, str, int] | None = None,
        transaction: tuple[str, str] | None = None,
        request: tuple[str, int] | None = None,
        fault: tuple[int, int] | None = None,
        timeout: float = 10.0,
    ) -> None:
        """Wait until the cluster has reached a state; with several conditions, until all hold.

        The wait is an operation in a purgatory, which the change itself completes. If it does not
        come in time, ClusterTimeoutError, a TimeoutError, has the state at the end.

        Args:
            records: a topic, which need not exist yet, and how many records consumers can read of
                it at least.
            committed_records: the same for consumers with the isolation level read_committed.
            isr: a topic, a partition, and the nodes that are to be in sync, in any order.
            group_stable: a group whose members are to have their assignments.
            assignment: a group, the client id of a member, a topic, and the partitions of it that
                the member is to have, in any order; of several members with the id, together.
            committed: a group, a topic, a partition, and the offset that the group is to have
                committed at least.
            lag: a group, a topic, and how many of its records the group may be behind at most.
                Where the group has committed no offset, all records count.
            transaction: a transactional id, and the state that its transaction is to be in, such as
                ("payments", "CompleteCommit").
            request: an API, and how many requests of it clients have sent at least since
                `forget_requests`, the last reset, or the cluster's start.
            fault: the id of an injected fault, and how many requests or responses have met it at
                least.
            timeout: seconds.

        Raises:
            ClusterTimeoutError: not all conditions hold after `timeout`.
            InvalidArgumentError: there is no condition, or a value is not allowed.
        """
        conditions = Conditions(self._parts)
        wanted: list[tuple[Callable[[Any], Condition], Any]] = [
            (conditions.records, records),
            (conditions.committed_records, committed_records),
            (conditions.isr, isr),
            (conditions.group_stable, group_stable),
            (conditions.assignment, assignment),
            (conditions.committed, committed),
            (conditions.lag, lag),
            (partial(transaction_condition, self._parts), transaction),
            (conditions.request, request),
            (conditions.fault, fault),
        ]
        given = [condition(value) for condition, value in wanted if value is not None]
        if not given:
            raise InvalidArgumentError("wait_for", "called with at least one condition", None)
        await self.waits.until(given, timeout)
