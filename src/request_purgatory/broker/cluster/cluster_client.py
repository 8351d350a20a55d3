"""The commands of a running cluster as methods, wherever the cluster runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self


class ClusterClient(ABC):
    """Start a cluster, run commands on it, and stop it: `with ... as cluster:`.

    Any thread may call the methods. Each returns when its command is done.

    Every command raises ClusterError or InvalidArgumentError, with the offending value, if the
    cluster refuses it.
    """

    @abstractmethod
    def start(self) -> Self:
        """Start the cluster, as entering the `with` block does."""

    @abstractmethod
    def close(self) -> None:
        """Stop all nodes in an orderly way. Further calls do nothing."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, "host:port,host:port", for clients' `bootstrap_servers`."""

    @abstractmethod
    def call(self, command: str, /, **arguments: Any) -> Any:
        """Run a command by its name, as in `commands.commands`, and return its result."""

    # -- topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: dict[str, str | None] | None = None,
    ) -> None:
        """Create a topic. Clients can use it as soon as this returns.

        Args:
            name: the topic's name.
            partitions: their number; -1 is the cluster's default.
            replication_factor: replicas of each partition; -1 is the cluster's default.
            configs: topic settings by Kafka's names.
        """
        self.call(
            "create_topic",
            name=name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
        )

    def describe_topic(self, topic: str) -> list[dict[str, Any]]:
        """Return the state of a topic's partitions, by partition number.

        Args:
            topic: the topic's name.

        Returns:
            For each partition `partition`, `leader`, `leader_epoch`, `replicas`, `isr`, and
            `offsets`: for each live replica's node its `log_start_offset`, `end_offset` and
            `high_watermark`.
        """
        found: list[dict[str, Any]] = self.call("describe_topic", topic=topic)
        # JSON turns integer keys into strings.
        return [
            {**each, "offsets": {int(node): offsets for node, offsets in each["offsets"].items()}}
            for each in found
        ]

    def metrics(self) -> dict[int, dict[str, dict[str, float]]]:
        """Return the metrics of every live node's purgatories.

        Returns:
            By node, purgatory and metric: PurgatorySize, NumDelayedOperations, Completions,
            Cancellations, Expires, ExpiresPerSec (since the previous call), Purges and
            CallbackErrors. `Fetch` also has `follower.` and `consumer.` variants of Expires and
            ExpiresPerSec.
        """
        return {int(node): found for node, found in self.call("metrics").items()}

    # -- nodes

    def pause_replication(self, node: int) -> None:
        """Stop a node from fetching as a follower, until `resume_replication`.

        The node falls behind its leaders. After `replica_lag_time_max_ms` it leaves the in-sync
        replicas. It still serves the partitions that it leads.

        Args:
            node: the node's number.
        """
        self.call("pause_replication", node=node)

    def resume_replication(self, node: int) -> None:
        """Undo `pause_replication`.

        Args:
            node: the node's number.
        """
        self.call("resume_replication", node=node)

    def set_latency(self, node: int, latency_ms: int) -> None:
        """Delay each message between a node and the other nodes or the controller.

        Args:
            node: the node's number.
            latency_ms: milliseconds in each direction; 0 removes the delay.
        """
        self.call("set_latency", node=node, latency_ms=latency_ms)

    def partition_node(self, node: int) -> None:
        """Cut a node off from the other nodes and the controller; clients still reach it.

        After `broker_session_timeout_ms` the controller fences the node and elects other leaders.

        Args:
            node: the node's number.
        """
        self.call("partition_node", node=node)

    def heal_node(self, node: int) -> None:
        """Undo `partition_node`.

        Args:
            node: the node's number.
        """
        self.call("heal_node", node=node)

    def kill(self, node: int) -> None:
        """Stop a node at once, as `kill -9` would.

        Args:
            node: the node's number.
        """
        self.call("kill", node=node)

    def stop(self, node: int) -> None:
        """Stop a node in an orderly way.

        Args:
            node: the node's number.
        """
        self.call("stop", node=node)

    def restart(self, node: int) -> None:
        """Start a killed or stopped node again, on its previous port and with its log.

        Args:
            node: the node's number.
        """
        self.call("restart", node=node)

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make another in-sync replica the leader of a partition, in a new leader epoch.

        Args:
            topic: the topic's name.
            partition: the partition's number.
            node: the number of the new leader's node.
        """
        self.call("move_leader", topic=topic, partition=partition, node=node)

    # -- requests and responses

    def inject_request_error(
        self, api: str, error: str, *, times: int = 1, node: int | None = None
    ) -> None:
        """Answer the next requests of an API with an error, without handling them.

        Args:
            api: Kafka's name of the API, such as "Produce".
            error: Kafka's name of the error, such as "NOT_ENOUGH_REPLICAS".
            times: number of requests; -1 is all.
            node: only requests to this node; None is any node.
        """
        self.call("inject_request_error", api=api, error=error, times=times, node=node)

    def inject_response_fault(
        self,
        api: str,
        kind: str,
        *,
        times: int = 1,
        node: int | None = None,
        delay_ms: int = 0,
        seed: int | None = None,
    ) -> None:
        """Delay, drop, corrupt or cut off the next responses of an API; their requests are handled.

        Args:
            api: Kafka's name of the API, such as "Produce".
            kind: "delay", "drop", "corrupt" or "disconnect".
            times: number of responses; -1 is all.
            node: only responses of this node; None is any node.
            delay_ms: milliseconds, for "delay".
            seed: of the random changes, for "corrupt"; None is a random one.
        """
        self.call(
            "inject_response_fault",
            api=api,
            kind=kind,
            times=times,
            node=node,
            delay_ms=delay_ms,
            seed=seed,
        )

    def clear_faults(self) -> None:
        """Remove every injected request error and response fault."""
        self.call("clear_faults")
