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
        self.is_paused = is_paused
        self.by_leader: dict[int, Fetcher] = {}
        self._replicas = replicas
        self._connect = connect

    def add(self, key: TopicPartition, leader: int) -> None:
        fetcher = self.by_leader.get(leader)
        if fetcher is None:
            fetcher = Fetcher(self._replicas, self._connect(leader), is_paused=self.is_paused)
            self.by_leader[leader] = fetcher
        fetcher.add(key)

    def remove(self, key: TopicPartition) -> None:
        for fetcher in self.by_leader.values():
            fetcher.remove(key)

    def pause(self) -> None:
        self.is_paused = True
        for fetcher in self.by_leader.values():
            fetcher.pause()

    def resume(self) -> None:
        self.is_paused = False
        for fetcher in self.by_leader.values():
            fetcher.resume()

    def restart(self, leader: int) -> None:
        """Send the request to a leader again: the one in flight was lost with the link."""
        if leader in self.by_leader:
            self.by_leader[leader].restart()

    def close(self) -> None:
        for fetcher in self.by_leader.values():
            fetcher.close()
