"""What lies between the nodes.

They share a process, but not everything reaches everyone at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

#: The controller, as an end of a link.
CONTROLLER = -1

_Link = tuple[int, int]


class Network:
    """Carries messages between nodes, and between a node and the controller, by way of the event loop.

    A link may be cut, and a node's messages may be delayed. What is on a link when it is cut is
    lost; all else arrives, in the order in which it was sent from this end to that, as on a
    connection.
    """

    def __init__(self) -> None:
        self._cut: set[int] = set()
        self._lag_ms: dict[int, int] = {}
        #: What is under way from one end to another: when it is due by the loop's time, and what is
        #: to be called then.
        self._links: dict[_Link, deque[tuple[float, Callable[[], None]]]] = {}

    def send(self, source: int, target: int, deliver: Callable[[], None]) -> None:
        """Have `deliver` called on the loop, if source and target reach each other now and until then."""
        if not self.is_connected(source, target):
            return
        loop = asyncio.get_running_loop()
        link = (source, target)
        under_way = self._links.get(link)
        if under_way is None:
            under_way = self._links[link] = deque()
        now = loop.time()
        due = now + max(self._lag_ms.get(source, 0), self._lag_ms.get(target, 0)) / 1_000
        if under_way:
            due = max(
                due, under_way[-1][0]
            )  # The lag may have become less: nothing overtakes what was sent before it.
        under_way.append((due, deliver))
        # Each message has its own call, which delivers the first that is due: the loop does not
        # keep the order of equal times.
        if due <= now:
            loop.call_soon(self._arrive, under_way, due)
        else:
            loop.call_at(due, self._arrive, under_way, due)

    def _arrive(self, under_way: deque[tuple[float, Callable[[], None]]], due: float) -> None:
        if under_way and under_way[0][0] <= due:
            under_way.popleft()[1]()

    def is_connected(self, source: int, target: int) -> bool:
        """True unless one of them is cut off."""
        return source == target or not (source in self._cut or target in self._cut)

    def cut_off(self, node: int) -> None:
        """Nothing passes between a node and the others, or the controller.

        What is under way is lost.
        """
        self._cut.add(node)
        for link in [link for link in self._links if node in link]:
            self._links.pop(link).clear()

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
