"""The simulated network between the nodes of a cluster and its controller.

The nodes share a process; this module gives their messages latency, and drops them where a node is
partitioned.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable

#: The controller's number as an end of a link; nodes are 0 and above.
CONTROLLER = -1

_Link = tuple[int, int]
#: When a message is due and when it was sent, by the loop's clock in seconds, and the delivery.
_Message = tuple[float, float, Callable[[], None]]


class Network:
    """Carries messages between nodes, and between nodes and the controller, over the event loop.

    Each direction between two ends is a link. A link delivers its messages in the order in which
    they were sent, as a TCP connection does. Messages in flight when a node is partitioned are
    lost; all others arrive.
    """

    def __init__(self) -> None:
        self._partitioned: set[int] = set()
        self._latency_ms: dict[int, int] = {}
        self._in_flight: defaultdict[_Link, deque[_Message]] = defaultdict(deque)

    def send(self, source: int, target: int, deliver: Callable[[], None]) -> None:
        """Call `deliver` on the event loop after the link's latency; never at once.

        A link's latency is that of its slower end. The message is lost if either end is partitioned
        now or before the message is due.
        """
        if not self.is_connected(source, target):
            return
        loop = asyncio.get_running_loop()
        link = (source, target)
        in_flight = self._in_flight[link]
        now = loop.time()
        due = now + self._link_latency(link)
        if in_flight:
            # The latency may have been reduced: no message overtakes an earlier one.
            due = max(due, in_flight[-1][0])
        in_flight.append((due, now, deliver))
        self._schedule(loop, in_flight, due, now)

    def _link_latency(self, link: _Link) -> float:
        """Return a link's latency in seconds."""
        source, target = link
        return max(self._latency_ms.get(source, 0), self._latency_ms.get(target, 0)) / 1_000

    def _schedule(
        self, loop: asyncio.AbstractEventLoop, in_flight: deque[_Message], due: float, now: float
    ) -> None:
        # The loop does not keep the order of calls that are due at the same time. So each call
        # delivers the link's first message that is due, whichever message it was scheduled for.
        # There are never fewer calls than messages; one too many finds nothing that is due.
        if due <= now:
            loop.call_soon(self._deliver_first, in_flight, due)
        else:
            loop.call_at(due, self._deliver_first, in_flight, due)

    def _deliver_first(self, in_flight: deque[_Message], due: float) -> None:
        if in_flight and in_flight[0][0] <= due:
            _, _, deliver = in_flight.popleft()
            # What it raises is the loop's to report. It is as if the message were lost, and its
            # sender asks again.
            deliver()

    def is_connected(self, source: int, target: int) -> bool:
        """Return True unless one of the two ends is partitioned; an end reaches itself always."""
        return source == target or not (source in self._partitioned or target in self._partitioned)

    def partition_node(self, node: int) -> None:
        self._partitioned.add(node)
        for link in [link for link in self._in_flight if node in link]:
            self._in_flight.pop(link).clear()

    def heal_node(self, node: int) -> None:
        self._partitioned.discard(node)

    def reset(self) -> None:
        self._partitioned.clear()
        self._latency_ms.clear()
        for link in self._in_flight.values():
            link.clear()
        self._in_flight.clear()

    @property
    def partitioned_nodes(self) -> frozenset[int]:
        return frozenset(self._partitioned)

    def latency_ms(self, node: int) -> int:
        return self._latency_ms.get(node, 0)

    def set_latency(self, node: int, latency_ms: int) -> None:
        """Delay later messages from and to a node; a lower latency those in flight, too."""
        is_lower = latency_ms < self.latency_ms(node)
        if latency_ms:
            self._latency_ms[node] = latency_ms
        else:
            self._latency_ms.pop(node, None)
        if is_lower:
            for link, in_flight in self._in_flight.items():
                if node in link and in_flight:
                    self._advance(link, in_flight)

    def _advance(self, link: _Link, in_flight: deque[_Message]) -> None:
        """Deliver the messages of a link at the time of its present latency, if that is earlier."""
        loop = asyncio.get_running_loop()
        now, latency = loop.time(), self._link_latency(link)
        before = 0.0
        for number, (due, sent, deliver) in enumerate(in_flight):
            earlier = max(before, min(due, sent + latency))
            if earlier < due:
                in_flight[number] = earlier, sent, deliver
                self._schedule(loop, in_flight, earlier, now)
            before = earlier
