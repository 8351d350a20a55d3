"""The fetchers of a node, one for each leader, as Kafka's ReplicaFetcherManager has them."""

from __future__ import annotations

from collections.abc import Callable

from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.fetcher import Fetcher, FollowerReplicas
from purgatory_broker.replication.leader_endpoint import LeaderEndPoint


class FetcherManager:
    """Fetches the partitions that a node follows, each from its leader."""

    def __init__(
        self,
        replicas: FollowerReplicas,
        connect: Callable[[int], LeaderEndPoint],
        *,
        is_paused: bool,
    ) -> None:
        """Create a manager without partitions.

        Args:
            replicas: the node's replicas.
            connect: returns what takes requests to a leader, by the number of its node.
            is_paused: fetch nothing until `resume`.
        """
        self.is_paused = is_paused
        self.by_leader: dict[int, Fetcher] = {}
        self._replicas = replicas
        self._connect = connect

    def add(self, key: TopicPartition, leader: int) -> None:
        """Start fetching a partition from a leader."""
        fetcher = self.by_leader.get(leader)
        if fetcher is None:
            fetcher = Fetcher(self._replicas, self._connect(leader), is_paused=self.is_paused)
            self.by_leader[leader] = fetcher
        fetcher.add(key)

    def remove(self, key: TopicPartition) -> None:
        """Stop fetching a partition; no-op if it is not fetched."""
        for fetcher in self.by_leader.values():
            fetcher.remove(key)

    def pause(self) -> None:
        """Stop fetching until `resume`."""
        self.is_paused = True
        for fetcher in self.by_leader.values():
            fetcher.pause()

    def resume(self) -> None:
        """Undo `pause`."""
        self.is_paused = False
        for fetcher in self.by_leader.values():
            fetcher.resume()

    def restart(self, leader: int) -> None:
        """Send the request to a leader again: the one in flight was lost with the link."""
        if leader in self.by_leader:
            self.by_leader[leader].restart()

    def close(self) -> None:
        """Stop fetching, and forget all partitions."""
        for fetcher in self.by_leader.values():
            fetcher.close()
