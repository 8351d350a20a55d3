"""Requests between nodes, over the cluster's network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from purgatory_broker.cluster.network import Network

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _NodeRequest:
    source: int
    target: int
    on_lost: Callable[[], None]


@dataclass(slots=True, eq=False)
class NodeRequests:
    """The requests that nodes have sent each other, and that are not answered.

    A request is one round trip over the network, as in `RemoteLeader`. If one of its ends stops or
    is cut off, it is lost, as with a TCP connection: its sender is told, and whatever arrives of it
    later is ignored. A request of a node to itself needs no network.
    """

    network: Network
    _in_flight: dict[_NodeRequest, None] = field(default_factory=dict)

    def send(
        self,
        source: int,
        target: int,
        serve: Callable[[Callable[[T], None]], bool],
        respond: Callable[[T], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Call `serve` at the target with a function for the response, and `respond` with it.

        `serve` returns False if the target is not running; the request is lost then. Either
        `respond` or `on_lost` is called, once.
        """
        request = _NodeRequest(source, target, on_lost)
        self._in_flight[request] = None

        def arrive() -> None:
            if request in self._in_flight and not serve(answer):
                self._lose(request)

        def answer(response: T) -> None:
            if source == target:
                returned(response)
            elif request in self._in_flight:
                self.network.send(target, source, lambda: returned(response))

        def returned(response: T) -> None:
            if request in self._in_flight:
                del self._in_flight[request]
                respond(response)

        if source == target:
            arrive()
        elif self.network.is_connected(source, target):
            self.network.send(source, target, arrive)
        else:
            self._lose(request)

    def disconnect(self, node: int) -> None:
        """Lose the requests from and to a node, which has stopped or is cut off."""
        for request in list(self._in_flight):
            if node in (request.source, request.target):
                self._lose(request)

    def _lose(self, request: _NodeRequest) -> None:
        """Tell the sender, in the loop's next round: it may be in the middle of a change."""
        if self._in_flight.pop(request, request) is None:
            asyncio.get_running_loop().call_soon(request.on_lost)
