"""A follower's requests to its leader, over the cluster's network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from purgatory_broker.cluster.network import Network
from purgatory_broker.replication.delayed_fetch import (
    DelayedFetch,
    FetchedPartition,
    FetchParams,
    FetchTarget,
)
from purgatory_broker.replication.fetches import Fetches
from purgatory_broker.replication.follower_log import LogBounds

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class RemoteLeader:
    """The leader of a follower's partitions; the `LeaderEndPoint` of its fetcher.

    The follower learns about the leader from messages only. A request is one round trip over the
    cluster's network, in four steps:

        follower                             leader
        fetch(..., respond)
              ---- network.send: arrive ---> serve(answer): read, or wait in the purgatory
                                             ...
        returned(response) <-- network.send  answer(response)
        respond(response)

    Every step after the first checks that the request has not been cancelled. If the link is cut
    and healed again, the fetcher cancels its request and sends another. What still arrives of the
    cancelled one, at either end, is ignored.
    """

    network: Network
    follower: int
    leader: int
    #: Returns those of the leader's node, which are others after a restart of the node.
    find_fetches: Callable[[], Fetches]

    def fetch(
        self,
        params: FetchParams,
        targets: list[FetchTarget],
        respond: Callable[[list[FetchedPartition]], None],
    ) -> _RoundTrip:
        def serve(
            leader: Fetches, answer: Callable[[list[FetchedPartition]], None]
        ) -> DelayedFetch | None:
            return leader.fetch(params, targets, answer)

        return self._send(serve, respond)

    def log_bounds(
        self, targets: list[FetchTarget], respond: Callable[[list[LogBounds]], None]
    ) -> _RoundTrip:
        def serve(leader: Fetches, answer: Callable[[list[LogBounds]], None]) -> None:
            answer([leader.log_bounds(target) for target in targets])

        return self._send(serve, respond)

    def _send(
        self,
        serve: Callable[[Fetches, Callable[[T], None]], DelayedFetch | None],
        respond: Callable[[T], None],
    ) -> _RoundTrip:
        """`serve` runs on the leader, and answers now or later; `respond` runs on the follower."""
        request = _RoundTrip()
        leader = self.find_fetches()

        def arrive() -> None:
            if leader.replicas.is_closed or request.is_cancelled:
                return
            with leader.replicas.actions:
                request.waiting_fetch = serve(leader, answer)

        def answer(response: T) -> None:
            # It refers to this function; without the cycle, both are freed at once.
            request.waiting_fetch = None
            self.network.send(self.leader, self.follower, lambda: returned(response))

        def returned(response: T) -> None:
            if not request.is_cancelled:
                respond(response)

        self.network.send(self.follower, self.leader, arrive)
        return request


@dataclass(slots=True, eq=False)
class _RoundTrip:
    is_cancelled: bool = False
    #: The request while it waits in the leader's purgatory.
    waiting_fetch: DelayedFetch | None = None

    def cancel(self) -> None:
        """Ignore a later response. In Kafka the fetch would wait for its timeout at the leader."""
        self.is_cancelled = True
        waiting, self.waiting_fetch = self.waiting_fetch, None
        if waiting is not None:
            waiting.cancel()
