"""The operations of `wait_for`, and the changes that complete them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from purgatory_broker.cluster.cluster_errors import ClusterTimeoutError
from purgatory_broker.metadata.topics import TopicPartition
from request_purgatory.aio import Purgatory


@dataclass(frozen=True, slots=True)
class Condition:
    #: The watch key, which is notified when the state that the condition reads may have changed.
    key: Hashable
    holds: Callable[[], bool]
    #: Returns what is expected, and the present state, for the error message.
    describe: Callable[[], str]


def topic_key(topic: str) -> Hashable:
    """Return the watch key of a topic: its high watermarks, leaders and in-sync replicas."""
    return "topic", topic


def group_key(group_id: str) -> Hashable:
    return "group", group_id


def request_key(api: str) -> Hashable:
    return "request", api


def fault_key(fault: int) -> Hashable:
    return "fault", fault


class Waits:
    """Where tests wait for the cluster's state; without any, a report costs one comparison."""

    def __init__(self) -> None:
        self.purgatory = Purgatory("Wait")
        #: The tests that wait.
        self._num_waiting = 0

    def partition_changed(self, key: TopicPartition) -> None:
        if self._num_waiting:
            self.purgatory.notify(topic_key(key.topic))

    def group_stable(self, group_id: str) -> None:
        if self._num_waiting:
            self.purgatory.notify(group_key(group_id))

    def request_received(self, api: str) -> None:
        if self._num_waiting:
            self.purgatory.notify(request_key(api))

    def fault_hit(self, fault: int) -> None:
        if self._num_waiting:
            self.purgatory.notify(fault_key(fault))

    async def until(self, conditions: Sequence[Condition], timeout: float) -> None:
        """Wait until all conditions hold together, at most `timeout` seconds."""
        keys = {condition.key for condition in conditions}
        self._num_waiting += 1
        try:
            await self.purgatory.hold(
                keys,
                until=lambda: all(condition.holds() for condition in conditions),
                timeout=timeout,
            )
        except TimeoutError:
            states = "; ".join(
                condition.describe() for condition in conditions if not condition.holds()
            )
            raise ClusterTimeoutError(f"not within {timeout:g} s: {states}") from None
        finally:
            self._num_waiting -= 1
