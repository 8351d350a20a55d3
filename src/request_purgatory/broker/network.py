"""What lies between the nodes: they share a process, but not everything reaches everyone at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: The controller, as an end of a link.
CONTROLLER = -1


class Network:
    """Carries messages between nodes, and between a node and the controller, by way of the event loop.

    A link may be cut, and a node's messages may be delayed. What is on a link when it is cut is lost.
    """

    def __init__(self) -> None:
        self._cut: set[int] = set()
        self._lag_ms: dict[int, int] = {}

    def send(self, source: int, target: int, deliver: Callable[[], None]) -> None:
        """Have `deliver` called on the loop, if source and target reach each other now and then."""
        if not self.is_connected(source, target):
            return
        loop = asyncio.get_running_loop()
        lag_ms = max(self._lag_ms.get(source, 0), self._lag_ms.get(target, 0))
        if lag_ms:
            loop.call_later(lag_ms / 1_000, self._deliver, source, target, deliver)
        else:
            loop.call_soon(self._deliver, source, target, deliver)

    def _deliver(self, source: int, target: int, deliver: Callable[[], None]) -> None:
        if self.is_connected(source, target):
            deliver()

    def is_connected(self, source: int, target: int) -> bool:
        """True unless one of them is cut off."""
        return source == target or not (source in self._cut or target in self._cut)

    def cut_off(self, node: int) -> None:
        """Nothing passes between a node and the others, or the controller."""
        self._cut.add(node)

    def reconnect(self, node: int) -> None:
        """Undo `cut_off`."""
        self._cut.discard(node)

    @property
    def cut(self) -> frozenset[int]:
        """The nodes that are cut off."""
        return frozenset(self._cut)

    def lag(self, node: int, lag_ms: int) -> None:
        """Have every message from and to a node take so long; 0 is none."""
        if lag_ms:
            self._lag_ms[node] = lag_ms
        else:
            self._lag_ms.pop(node, None)
