"""A cluster that runs, wherever it does: its commands as methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self


class RunningCluster(ABC):
    """A cluster for one `with` block, and what can be done to it.

    Any thread may call it; each call returns when it is done.

    Every method raises ClusterError or InvalidArgumentError for what can't be done, with the
    values.
    """

    @abstractmethod
    def start(self) -> Self:
        """Start; what `with` does."""

    @abstractmethod
    def close(self) -> None:
        """Stop all nodes in an orderly way; may be repeated."""

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
    def bootstrap(self) -> str:
        """What clients are given: the addresses of all nodes."""

    @abstractmethod
    def call(self, command: str, /, **arguments: Any) -> Any:
        """Run a command by its name; see `control.commands`."""

    # -- topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: dict[str, str | None] | None = None,
    ) -> None:
        """A new topic, which clients can use at once; -1 is the cluster's default."""
        self.call(
            "create_topic",
            name=name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
        )

    def describe(self, topic: str) -> list[dict[str, Any]]:
        """A topic's partitions.

        `leader`, `leader_epoch`, `replicas`, `isr`, and `offsets` of each live replica by node.
        """
        found: list[dict[str, Any]] = self.call("describe", topic=topic)
        # What has passed through JSON has texts for keys.
        return [
            {**each, "offsets": {int(node): offsets for node, offsets in each["offsets"].items()}}
            for each in found
        ]

    def metrics(self) -> dict[int, dict[str, dict[str, float]]]:
        """By node and purgatory: PurgatorySize, NumDelayedOperations, Expires, ExpiresPerSec (since the call before) and more;
        Fetch has `follower.Expires` and `consumer.Expires`."""
        return {int(node): found for node, found in self.call("metrics").items()}

    # -- nodes

    def freeze(self, node: int) -> None:
        """Have a node fetch nothing any more as a follower, until `thaw`: it falls behind, and out of the in-sync replicas after
        `replica_lag_time_max_ms`."""
        self.call("freeze", node=node)

    def thaw(self, node: int) -> None:
        """Undo `freeze`."""
        self.call("thaw", node=node)

    def lag(self, node: int, lag_ms: int) -> None:
        """Have all that passes between a node and the others take so long; 0 is none."""
        self.call("lag", node=node, lag_ms=lag_ms)

    def cut_off(self, node: int) -> None:
        """Let nothing pass between a node and the others or the controller.

        Clients reach it as before.
        """
        self.call("cut_off", node=node)

    def reconnect(self, node: int) -> None:
        """Undo `cut_off`."""
        self.call("reconnect", node=node)

    def kill(self, node: int) -> None:
        """End a node at once, as `kill -9` would."""
        self.call("kill", node=node)

    def stop(self, node: int) -> None:
        """End a node in an orderly way."""
        self.call("stop", node=node)

    def restart(self, node: int) -> None:
        """Start a node that was killed or stopped, on the port that it had."""
        self.call("restart", node=node)

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make another in-sync replica a partition's leader."""
        self.call("move_leader", topic=topic, partition=partition, node=node)

    # -- requests and responses

    def fail_requests(
        self, api: str, error: str, *, times: int = 1, node: int | None = None
    ) -> None:
        """Answer the next `times` requests of an API (-1.

        All), of one node or of any, with an error by Kafka's name for it.
        """
        self.call("fail_requests", api=api, error=error, times=times, node=node)

    def befall_responses(
        self,
        api: str,
        kind: str,
        *,
        times: int = 1,
        node: int | None = None,
        delay_ms: int = 0,
        seed: int | None = None,
    ) -> None:
        """Let something befall the next `times` responses of an API (-1: all).

        `delay`, `drop`, `corrupt` or `disconnect`.
        """
        self.call(
            "befall_responses",
            api=api,
            kind=kind,
            times=times,
            node=node,
            delay_ms=delay_ms,
            seed=seed,
        )

    def clear_faults(self) -> None:
        """Let nothing go wrong any more with requests and responses."""
        self.call("clear_faults")
