"""The commands that change or inspect a running cluster, each said once.

From its function, with its parameters and docstring, follow the command of the control protocol,
the method of `ClusterClient`, the command of `purgatory broker` and its row in docs/broker.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

from request_purgatory.broker.api.registry import find_api
from request_purgatory.broker.cluster.client_request import ClientRequest, client_request
from request_purgatory.broker.cluster.conditions import (
    Conditions,
    coordinated_groups,
    leader_replica,
)
from request_purgatory.broker.cluster.group_snapshot import GroupSnapshot, snapshot
from request_purgatory.broker.cluster.interception import InterceptFunction, Interception
from request_purgatory.broker.cluster.node import ClusterParts, Node
from request_purgatory.broker.cluster.topic_records import TopicRecord, readable_records
from request_purgatory.broker.metadata.controller import ControllerError
from request_purgatory.broker.metadata.topics import NO_LEADER, Partition, TopicPartition
from request_purgatory.broker.replication.delayed_delete_records import DeletedPartition
from request_purgatory.broker.replication.replica import Replica
from request_purgatory.broker.replication.replica_manager import TO_HIGH_WATERMARK
from request_purgatory.broker.server.faults import FaultDescription, FaultFilter
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.errors import InvalidArgumentError

F = TypeVar("F", bound=Callable[..., Any])

#: Every command by its name, in the order of their definition. A command's first parameter is the
#: cluster; its result can be written as JSON.
COMMANDS: dict[str, Callable[..., Any]] = {}
#: Kafka's `request.timeout.ms` of an admin client.
_TRUNCATE_TIMEOUT_MS = 30_000
#: 316 years. Timestamps, in milliseconds since 1970, then fit into the protocol by far.
_MAX_ADVANCED_MS = 10**13


def command(function: F) -> F:
    """Make a command of a method of `ClusterCommands`.

    Returns:
        The method.
    """
    COMMANDS[function.__name__] = function
    return function


class ReplicaOffsets(TypedDict):
    """The offsets of a live replica."""

    log_start_offset: int
    end_offset: int
    high_watermark: int


class PartitionDescription(TypedDict):
    """The state of a partition, as the controller and the replicas' nodes know it."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    #: By the number of the replica's node.
    offsets: dict[int, ReplicaOffsets]


class ClusterCommands:
    """The commands of a cluster, on its event loop.

    A refused command raises InvalidArgumentError, or ControllerError with the error code of Kafka.
    """

    def __init__(self, parts: ClusterParts) -> None:
        self.settings = parts.settings
        self.controller = parts.controller
        self.network = parts.network
        self._faults = parts.faults
        self._interceptions = parts.interceptions
        self.wall_ms = parts.wall_ms
        self.nodes = parts.nodes
        self.waits = parts.waits
        self._parts = parts
        self._fence_timers: dict[int, asyncio.TimerHandle] = {}
        #: Held while nodes start.
        self._start_lock = asyncio.Lock()

    @property
    @command
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, "host:port,host:port", for clients' `bootstrap_servers`."""
        return ",".join(f"{node.server.host}:{node.server.port}" for node in self.nodes)

    # -- topics

    @command
    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: dict[str, str | None] | None = None,
    ) -> None:
        """Create a topic. Clients can use it at once.

        Args:
            name: the topic's name.
            partitions: their number; -1 is the cluster's default.
            replication_factor: replicas of each partition; -1 is the cluster's default.
            configs: topic settings by Kafka's names.
        """
        self.controller.create_topic(
            name, partitions=partitions, replication_factor=replication_factor, configs=configs
        )

    @command
    def describe_topic(self, topic: str) -> list[PartitionDescription]:
        """Return the state of a topic's partitions, by partition number.

        Args:
            topic: the topic's name.

        Returns:
            For each partition `partition`, `leader`, `leader_epoch`, `replicas`, `isr`, and
            `offsets`: for each live replica's node its `log_start_offset`, `end_offset` and
            `high_watermark`.
        """
        partitions = self.controller.require_topic(topic).partitions
        return [self._describe_partition(partition) for partition in partitions]

    def _describe_partition(self, partition: Partition) -> PartitionDescription:
        offsets: dict[int, ReplicaOffsets] = {}
        for node in partition.replicas:
            is_stopped = self.nodes[node].is_stopped
            replica = None if is_stopped else self.nodes[node].replicas.find(partition.key)
            if replica is not None:
                offsets[node] = {
                    "log_start_offset": replica.log.log_start_offset,
                    "end_offset": replica.log.end_offset,
                    "high_watermark": replica.high_watermark,
                }
        return {
            "partition": partition.index,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "offsets": offsets,
        }

    @command
    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records; clients can't use it any more.

        Args:
            name: the topic's name.
        """
        self.controller.delete_topic(name)

    @command
    async def truncate(
        self, topic: str, *, partition: int | None = None, offset: int | None = None
    ) -> None:
        """Delete a topic's records, up to an offset or all, as Kafka's DeleteRecords does.

        Offsets continue where they were. Returns when every live replica has deleted the records;
        the error REQUEST_TIMED_OUT after 30 s means that a follower has not, and will when it
        fetches again.

        Args:
            topic: the topic's name.
            partition: the partition's number; None is every partition.
            offset: the first offset to keep; None deletes all records below the high watermark.

        Raises:
            InvalidArgumentError: the offset is negative.
            ControllerError: there is no such partition, it has no leader, the topic is the broker's
                own, the offset is above a high watermark, or a live replica does not reply.
        """
        if offset is not None and offset < 0:
            raise InvalidArgumentError("offset", "at least 0", offset)
        leaders = self._partitions_by_leader(topic, partition, offset)
        for leader, keys in leaders.items():
            await self._delete_records(self.nodes[leader], keys, offset)

    def _partitions_by_leader(
        self, topic: str, partition: int | None, offset: int | None
    ) -> dict[int, list[TopicPartition]]:
        """Return the partitions to truncate by the number of their leaders' node.

        Raises:
            ControllerError: records of a partition can't be deleted.
        """
        found = self.controller.require_topic(topic)
        if found.is_internal:
            raise ControllerError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is the broker's own topic"
            )
        leaders: dict[int, list[TopicPartition]] = {}
        numbers = range(len(found.partitions)) if partition is None else [partition]
        for number in numbers:
            key = TopicPartition(topic, number)
            known = self.controller.partition(key)
            if known is None:
                raise ControllerError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {key}"
                )
            replica = None
            if known.leader != NO_LEADER:
                replica = self.nodes[known.leader].replicas.find(key)
            if replica is None or not replica.is_leader:
                raise ControllerError(ErrorCode.LEADER_NOT_AVAILABLE, f"{key} has no leader")
            if offset is not None and offset > replica.high_watermark:
                raise ControllerError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"offset {offset} of {key} is above its high watermark, "
                    f"{replica.high_watermark}",
                )
            leaders.setdefault(known.leader, []).append(key)
        return leaders

    async def _delete_records(
        self, leader: Node, keys: list[TopicPartition], offset: int | None
    ) -> None:
        """Delete records of partitions that a node leads.

        Raises:
            ControllerError: with the error of the first partition that has one.
        """
        replied: asyncio.Future[list[DeletedPartition]] = asyncio.Future()

        def reply(deleted: list[DeletedPartition]) -> None:
            if not replied.done():
                replied.set_result(deleted)

        first_kept = TO_HIGH_WATERMARK if offset is None else offset
        with leader.actions:
            leader.replicas.delete_records(
                _TRUNCATE_TIMEOUT_MS, [(key, first_kept) for key in keys], reply
            )
        try:
            # A node that stops in the meantime does not reply.
            deleted = await asyncio.wait_for(replied, _TRUNCATE_TIMEOUT_MS / 1_000 + 1)
        except TimeoutError:
            deleted = [DeletedPartition(keys[0], ErrorCode.REQUEST_TIMED_OUT)]
        for each in deleted:
            if each.error is not ErrorCode.NONE:
                raise ControllerError(
                    each.error,
                    f"{each.key}: not every live replica has deleted its records "
                    f"({each.error.name})",
                )

    @command
    def metrics(self) -> dict[int, dict[str, dict[str, float]]]:
        """Return the metrics of every live node's purgatories.

        Returns:
            By node, purgatory and metric: PurgatorySize, NumDelayedOperations, Completions,
            Cancellations, Expires, ExpiresPerSec (the mean since the node's start), Purges and
            CallbackErrors. `Fetch` also has `follower.` and `consumer.` variants of Expires and
            ExpiresPerSec.
        """
        return {
            node.node_id: node.metrics.read(node.now_ms())
            for node in self.nodes
            if not node.is_stopped
        }

    # -- nodes

    @command
    def pause_replication(self, node: int) -> None:
        """Stop a node from fetching as a follower, until `resume_replication`.

        The node falls behind its leaders. After `replica_lag_time_max_ms` it leaves the in-sync
        replicas. It still serves the partitions that it leads.

        Args:
            node: the node's number.
        """
        self._node(node).fetchers.pause()

    @command
    def resume_replication(self, node: int) -> None:
        """Undo `pause_replication`.

        Args:
            node: the node's number.
        """
        self._node(node).fetchers.resume()

    @command
    def set_latency(self, node: int, latency_ms: int) -> None:
        """Delay each message between a node and the other nodes or the controller.

        Args:
            node: the node's number.
            latency_ms: milliseconds in each direction; 0 removes the delay.

        Raises:
            InvalidArgumentError: there is no such node, or the latency is negative.
        """
        if latency_ms < 0:
            raise InvalidArgumentError("latency_ms", "at least 0", latency_ms)
        self.network.set_latency(self._node(node).node_id, latency_ms)

    @command
    def partition_node(self, node: int) -> None:
        """Cut a node off from the other nodes and the controller; clients still reach it.

        After `broker_session_timeout_ms` the controller fences the node and elects other leaders.

        Args:
            node: the node's number.
        """
        if node in self.network.partitioned_nodes:
            return
        self._node(node).disconnect_controller()
        self.network.partition_node(node)
        delay = self.settings.broker_session_timeout_ms / 1_000
        self._fence_timers[node] = asyncio.get_running_loop().call_later(
            delay, self.controller.fence_broker, node
        )

    @command
    def heal_node(self, node: int) -> None:
        """Undo `partition_node`.

        Args:
            node: the node's number.
        """
        healed = self._node(node)
        if node not in self.network.partitioned_nodes:
            return
        self.network.heal_node(node)
        self._fence_timers.pop(node).cancel()
        if not healed.is_stopped:
            self._register(healed)
        for other in self.nodes:
            if not other.is_stopped:
                other.fetchers.restart(node)
                healed.fetchers.restart(other.node_id)

    @command
    def kill(self, node: int) -> None:
        """Stop a node at once, as `kill -9` would: data written but not flushed survives.

        Without `data_dir` the node's logs stay in memory. No-op if the node is not running.

        Args:
            node: the node's number.
        """
        killed = self._node(node)
        if not killed.is_stopped:
            killed.kill()
            self.controller.fence_broker(node)

    @command
    def stop(self, node: int) -> None:
        """Stop a node in an orderly way; no-op if it is not running.

        Args:
            node: the node's number.
        """
        stopped = self._node(node)
        if not stopped.is_stopped:
            self.controller.fence_broker(node)
            stopped.stop()

    @command
    async def restart(self, node: int) -> None:
        """Start a killed or stopped node again, on its previous port and with its log.

        Args:
            node: the node's number.

        Raises:
            InvalidArgumentError: there is no such node, or it is running.
        """
        async with self._start_lock:
            old = self._node(node)
            if not old.is_stopped:
                raise InvalidArgumentError("node", "a killed or stopped node", node)
            new = Node(
                self._parts,
                node,
                old.log_directory,
                old.server.port,
                is_replication_paused=old.fetchers.is_paused,
            )
            await new.start()
            self.nodes[node] = new
            if node in self.network.partitioned_nodes:
                new.start_without_metadata()
            else:
                self._register(new)

    @command
    async def reset(self) -> None:
        """Make the cluster empty again, on the same ports: no topics, groups or records.

        All nodes run afterwards. Faults, latencies, partitions and paused replication are gone, and
        so are the requests that it remembers.
        Clients lose their connections, as when brokers restart, and reconnect. The cluster id
        stays, and no producer id is assigned twice.

        Raises:
            ControllerError: the empty metadata can't be stored; nothing has changed.
            OSError: another process has taken a port; `reset` may be called again.
        """
        async with self._start_lock:
            self.controller.reset()
            for timer in self._fence_timers.values():
                timer.cancel()
            self._fence_timers.clear()
            for node in self.nodes:
                if not node.is_stopped:
                    node.kill()
            self.network.reset()
            self._faults.clear()
            self._interceptions.clear()
            self._interceptions.cancel()
            self._parts.request_log.clear()
            self.wall_ms.advanced_ms = 0
            try:
                for number, old in enumerate(self.nodes):
                    new = Node(self._parts, number, old.log_directory, old.server.port)
                    await new.start()
                    self.nodes[number] = new
            finally:
                # Together, as at the start of the cluster.
                live = [node for node in self.nodes if not node.is_stopped]
                self.controller.register_broker(*(node.node_id for node in live))
                for node in live:
                    # Deletes the logs, since the controller knows no topic.
                    node.connect_controller()

    def _register(self, node: Node) -> None:
        self.controller.register_broker(node.node_id)
        node.connect_controller()

    @command
    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make another in-sync replica the leader of a partition, in a new leader epoch.

        Args:
            topic: the topic's name.
            partition: the partition's number.
            node: the number of the new leader's node.
        """
        key = TopicPartition(topic, partition)
        self.controller.move_leader(key, self._node(node).node_id)

    def _node(self, node: int) -> Node:
        """Return a node.

        Raises:
            InvalidArgumentError: there is no such node.
        """
        if not 0 <= node < len(self.nodes):
            raise InvalidArgumentError("node", f"between 0 and {len(self.nodes) - 1}", node)
        return self.nodes[node]

    # -- requests and responses

    @command
    def inject_request_error(
        self,
        api: str,
        error: int | str,
        *,
        times: int = 1,
        node: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        client_id: str | None = None,
    ) -> int:
        """Answer the next requests of an API with an error, without handling them.

        A request that names several topics, partitions or groups has the fault if one of them is
        the given one, and is answered with the error for all. A fetch names those of its session.

        Args:
            api: Kafka's name of the API, such as "Produce".
            error: Kafka's name of the error, such as "NOT_ENOUGH_REPLICAS", or its number.
            times: number of requests; -1 is all.
            node: only requests to this node; None is any node.
            topic: only requests that name this topic.
            partition: only requests that name this partition of the topic.
            group: only requests that name this group.
            client_id: only requests of clients with this id.

        Returns:
            The fault's id, as in `faults`.
        """
        only = FaultFilter(
            node=node, topic=topic, partition=partition, group=group, client_id=client_id
        )
        return self._faults.add_request_error(find_api(api), error, times=times, only=only)

    @command
    def inject_response_fault(
        self,
        api: str,
        kind: str,
        *,
        times: int = 1,
        node: int | None = None,
        delay_ms: int = 0,
        seed: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        client_id: str | None = None,
    ) -> int:
        """Delay, drop, corrupt or cut off the next responses of an API; their requests are handled.

        With a topic, a partition or a group, the fault is limited to requests that name it, and
        arrive after this command.

        Args:
            api: Kafka's name of the API, such as "Produce".
            kind: "delay", "drop", "corrupt" or "disconnect".
            times: number of responses; -1 is all.
            node: only responses of this node; None is any node.
            delay_ms: milliseconds, for "delay".
            seed: of the random changes, for "corrupt"; None is a random one.
            topic: only requests that name this topic.
            partition: only requests that name this partition of the topic.
            group: only requests that name this group.
            client_id: only requests of clients with this id.

        Returns:
            The fault's id, as in `faults`.
        """
        only = FaultFilter(
            node=node, topic=topic, partition=partition, group=group, client_id=client_id
        )
        return self._faults.add_response_fault(
            find_api(api), kind, times=times, only=only, delay_ms=delay_ms, seed=seed
        )

    @command
    def clear_faults(self) -> None:
        """Remove every injected request error and response fault, and every interception."""
        self._faults.clear()
        self._interceptions.clear()

    @command
    def faults(self) -> list[FaultDescription]:
        """Return the injected faults and interceptions with their hits, also those that are over.

        Returns:
            For each fault, in the order of injection: `id`, `api`, `kind`, `error`, `times` left
            (-1 is always, 0 that it is over), `hits`, and the `node`, `topic`, `partition`,
            `group` and `client_id` that it is limited to.
        """
        found = [*self._faults.describe(), *self._interceptions.describe()]
        return sorted(found, key=lambda each: each["id"])

    @command
    def advance_time(self, by_ms: int) -> None:
        """Advance the brokers' time of day, for retention and the sessions of group members.

        Retention deletes records at once, and members whose session timeout has passed are removed,
        as if they had sent no heartbeat in that time. Timestamps that brokers set are later. The
        timeouts of requests, rebalances, idle connections, replica lag and fenced nodes do not
        change. The time goes on from there until `reset`.

        Args:
            by_ms: milliseconds, at most 10^13, in sum with those before.

        Raises:
            InvalidArgumentError: the time would go back, or too far.
        """
        if by_ms < 0 or self.wall_ms.advanced_ms + by_ms > _MAX_ADVANCED_MS:
            raise InvalidArgumentError(
                "by_ms", f"at least 0, and in sum at most {_MAX_ADVANCED_MS}", by_ms
            )
        self.wall_ms.advanced_ms += by_ms
        for node in self.nodes:
            if not node.is_stopped:
                node.time_advanced()

    def intercept(self, api: str | None, function: InterceptFunction) -> Interception:
        """Call a function with each request of an API before the broker handles it.

        A plain function may change the request. It returns None to let the broker handle it, or a
        response, or `Unanswered.DROP` or `Unanswered.DISCONNECT`. A coroutine function may also
        await `handle()` for the broker's response, and return another one or change it; and it
        may wait. The connection's next request is handled after the answer to this one.

        If several functions intercept a request, the first added is called first. The next one is
        called if it has neither answered the request nor let the broker handle it. Injected faults
        come after the functions: `handle()` returns an injected error. Followers' fetches, and
        requests of an unsupported version, are not intercepted.

        Args:
            api: Kafka's name of the API, such as "Produce"; None is every API.
            function: called on the cluster's event loop, with an `InterceptedRequest`. It must not
                block: the cluster stands still while it runs.

        Returns:
            The interception, with its hits; `remove()` or the end of its `with` block ends it.

        Raises:
            InvalidArgumentError: no API has this name, or the function is not callable.
        """
        return self._interceptions.add(None if api is None else find_api(api), function)

    # -- what a test looks at, and waits for

    @command
    def records(self, topic: str) -> list[TopicRecord]:
        """Return the records of a topic that consumers can read: those below the high watermarks.

        Args:
            topic: the topic's name.

        Returns:
            For each record `partition`, `offset`, `timestamp_ms`, `key`, `value`, `headers` and
            `producer_id`, by partition and offset. In JSON, keys and values are text where they are
            UTF-8, and `{"base64": "..."}` otherwise.
        """
        return [
            record
            for partition in self.controller.require_topic(topic).partitions
            for replica in [self._require_leader(partition)]
            for record in readable_records(replica.log, partition.index, replica.high_watermark)
        ]

    @command
    def high_watermark(self, topic: str, partition: int = 0) -> int:
        """Return the high watermark of a partition's leader: consumers read the records before it.

        Args:
            topic: the topic's name.
            partition: the partition's number.

        Raises:
            InvalidArgumentError: there is no such partition.
        """
        partitions = self.controller.require_topic(topic).partitions
        if not 0 <= partition < len(partitions):
            raise InvalidArgumentError(
                "partition", f"between 0 and {len(partitions) - 1}", partition
            )
        return self._require_leader(partitions[partition]).high_watermark

    def _require_leader(self, partition: Partition) -> Replica:
        """Return the replica of a partition's leader.

        Raises:
            ControllerError: it has no leader that runs.
        """
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
    def requests(
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
            Kafka's protocol; None instead of more than 1 MiB.
        """
        name = None if api is None else find_api(api).name
        return [
            client_request(each)
            for each in self._parts.request_log.requests
            if name in (None, each.header.api.name)
            and client_id in (None, each.header.client_id or "")
        ]

    @command
    async def wait_for(
        self,
        *,
        records: tuple[str, int] | None = None,
        isr: tuple[str, int, list[int]] | None = None,
        group_stable: str | None = None,
        request: tuple[str, int] | None = None,
        timeout: float = 10.0,
    ) -> None:
        """Wait until the cluster has reached a state; with several conditions, until all hold.

        The wait is an operation in a purgatory, which the change itself completes. If it does not
        come in time, ClusterTimeoutError, a TimeoutError, has the state at the end.

        Args:
            records: a topic, which need not exist yet, and how many records consumers can read of
                it at least.
            isr: a topic, a partition, and the nodes that are to be in sync, in any order.
            group_stable: a group whose members are to have their assignments.
            request: an API, and how many requests of it clients have sent at least since the
                cluster's start.
            timeout: seconds.

        Raises:
            ClusterTimeoutError: not all conditions hold after `timeout`.
            InvalidArgumentError: there is no condition, or a value is not allowed.
        """
        conditions = Conditions(self.controller, self.nodes, self._parts.request_log)
        given = [
            *([] if records is None else [conditions.records(records)]),
            *([] if isr is None else [conditions.isr(isr)]),
            *([] if group_stable is None else [conditions.group_stable(group_stable)]),
            *([] if request is None else [conditions.request(request)]),
        ]
        if not given:
            raise InvalidArgumentError("wait_for", "called with at least one condition", None)
        await self.waits.until(given, timeout)
