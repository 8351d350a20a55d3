"""The commands on nodes, on the network between them, and on all nodes together."""

from __future__ import annotations

import asyncio

from purgatory_broker.cluster._commands.arguments import INT32_MAX, require_between
from purgatory_broker.cluster._commands.command_group import (
    CommandGroup,
    command,
    command_of_any_thread,
)
from purgatory_broker.cluster.cluster_errors import ClusterError
from purgatory_broker.cluster.node import Node
from purgatory_broker.listeners import join_address
from purgatory_broker.metadata.topics import TopicPartition
from request_purgatory.errors import InvalidArgumentError

#: 316 years. Timestamps, in milliseconds since 1970, then fit into the protocol by far.
_MAX_ADVANCED_MS = 10**13


class NodeCommands(CommandGroup):
    @property
    @command_of_any_thread
    def bootstrap_servers(self) -> str:
        """Addresses of all nodes with commas between, for `bootstrap_servers` of clients."""
        return self._addresses_of(self.nodes[0].server.listeners[0].name)

    def _addresses_of(self, listener: str) -> str:
        return ",".join(join_address(*node.server.advertised(listener)) for node in self.nodes)

    @command
    def bootstrap_servers_of(self, listener: str) -> str:
        """Return the addresses of all nodes that a listener advertises, "host:port,host:port".

        Args:
            listener: the listener's name, such as SASL_SSL.

        Raises:
            InvalidArgumentError: there is no such listener.
        """
        names = [bound.name for bound in self.nodes[0].server.listeners]
        if listener.upper() not in names:
            raise InvalidArgumentError("listener", f"one of {', '.join(names)}", listener)
        return self._addresses_of(listener.upper())

    @command
    def metrics(self) -> dict[int, dict[str, dict[str, float]]]:
        """Return the metrics of every live node's purgatories.

        Returns:
            By node, purgatory and metric: PurgatorySize, NumDelayedOperations, Completions,
            Cancellations, Expires, ExpiresPerSec (the mean since the node's start), Purges and
            CallbackErrors. `Fetch` also has `follower.` and `consumer.` variants of Expires and
            ExpiresPerSec.
        """
        return {node.node_id: node.metrics.read(node.now_ms()) for node in self._live_nodes}

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

        A lower latency applies to messages on their way, too, a higher one to later messages.

        Args:
            node: the node's number.
            latency_ms: milliseconds in each direction, at most 2^31 - 1; 0 removes the delay.

        Raises:
            InvalidArgumentError: there is no such node, or the latency is negative or too long.
        """
        require_between("latency_ms", latency_ms, 0, INT32_MAX)
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
        self._node(node).metadata.disconnect()
        self.network.partition_node(node)
        self._parts.requests.disconnect(node)
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
        for other in self._live_nodes:
            other.fetchers.restart(node)
            healed.fetchers.restart(other.node_id)

    @command
    def kill(self, node: int) -> None:
        """Stop a node at once, as `kill -9` would: data written but not flushed survives.

        Its port stays bound until `restart`, so that no other program gets it as a free one.
        Without `data_dir` the node's logs stay in memory. No-op if the node is not running.

        Args:
            node: the node's number.
        """
        killed = self._node(node)
        if not killed.is_stopped:
            killed.kill()
            killed.server.reserve_ports()
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
            stopped.server.reserve_ports()

    @command
    async def restart(self, node: int) -> None:
        """Start a killed or stopped node again, on its previous port and with its log.

        Args:
            node: the node's number.

        Raises:
            InvalidArgumentError: there is no such node, or it is running.
            OSError: another process has taken the port; `restart` may be called again. Other
                clusters than an AsyncCluster raise ClusterError.
            ClusterError: the cluster has stopped meanwhile.
        """
        async with self._start_lock:
            self.require_running("restart")
            old = self._node(node)
            if not old.is_stopped:
                raise InvalidArgumentError("node", "a killed or stopped node", node)
            new = Node(
                self._parts,
                node,
                old.log_manager,
                old.server.listeners,
                is_replication_paused=old.fetchers.is_paused,
            )
            await self._replace(old, new, "restart")
            if node in self.network.partitioned_nodes:
                new.metadata.start_empty(node)
            else:
                self._register(new)

    async def _replace(self, old: Node, new: Node, command: str) -> None:
        """Start a node on the ports of a stopped one, unless the cluster ends meanwhile."""
        self.require_running(command)
        old.server.release_ports()
        try:
            await new.start()
            self.require_running(command)
        except BaseException:
            if not new.is_stopped:
                new.kill()
            if self.loop is not None:
                old.server.reserve_ports()
            raise
        self.nodes[new.node_id] = new
        old.release()

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
        self.controller.leaders.move_leader(key, self._node(node).node_id)

    @command
    def advance_time(self, by_ms: int) -> None:
        """Advance the brokers' time of day, for retention, compaction, groups and transactions.

        Retention deletes records at once, compaction begins (`compact` waits for its end), and
        members whose session timeout has passed are removed, as if they had sent no heartbeat in
        that time. Records that a share group's member has had for too long are released.
        Transactions whose timeout has passed are aborted, and transactional ids that have expired
        are forgotten. Timestamps that brokers set are later. The timeouts of requests, rebalances,
        idle connections, replica lag and fenced nodes do not change. The time goes on from there
        until `reset`.

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
        for node in self._live_nodes:
            node.time_advanced()

    @command
    async def reset(self) -> None:
        """Make the cluster empty again, on the same ports: no topics, groups or records.

        All nodes run afterwards. Faults, latencies, partitions and paused replication are gone, and
        so are the requests that it remembers.
        Clients lose their connections, as when brokers restart, and reconnect. The cluster id
        stays, and no producer id is assigned twice.

        Raises:
            ClusterError: a function given to `intercept` called this on an AsyncCluster.
            ControllerError: the empty metadata can't be stored; nothing has changed.
            OSError: another process has taken a port; `reset` may be called again. Other clusters
                than an AsyncCluster raise ClusterError.
        """
        if self._interceptions.is_calling:
            raise ClusterError(
                "reset: would end the function given to intercept that has called it"
            )
        async with self._start_lock:
            self.require_running("reset")
            self.controller.reset()
            for timer in self._fence_timers.values():
                timer.cancel()
            self._fence_timers.clear()
            for node in self._live_nodes:
                node.kill()
                node.server.reserve_ports()
            self.network.reset()
            self._faults.clear()
            self._interceptions.clear()
            self._interceptions.cancel()
            await self._interceptions.wait_cancelled()
            self._parts.request_log.clear()
            self.wall_ms.advanced_ms = 0
            try:
                for number, old in enumerate(self.nodes):
                    new = Node(self._parts, number, old.log_manager, old.server.listeners)
                    await self._replace(old, new, "reset")
            finally:
                # Together, as at the start of the cluster.
                live = self._live_nodes
                self.controller.register_broker(*(node.node_id for node in live))
                for node in live:
                    # Deletes the logs, since the controller knows no topic.
                    node.connect_controller()
