"""The operations of `wait_for`, and the changes that complete them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from purgatory_broker.cluster.cluster_errors import ClusterError, ClusterTimeoutError
from purgatory_broker.metadata.topics import TopicPartition
from request_purgatory.aio import Purgatory
from request_purgatory.errors import PurgatoryClosedError


@dataclass(frozen=True, slots=True)
class Condition:
    #: Notified when the state that the condition reads may have changed: a kind, and which of it.
    #: A topic stands for its high watermarks, leaders and in-sync replicas; that of groups also for
    #: their committed offsets.
    key: Hashable
    holds: Callable[[], bool]
    #: Returns what is expected, and the present state, for the error message.
    describe: Callable[[], str]
    #: Further such keys.
    other_keys: tuple[Hashable, ...] = ()


class Waits:
    """Where tests wait for the cluster's state; without any, a report costs one comparison."""

    def __init__(self) -> None:
        self.purgatory = Purgatory("Wait")
        #: The tests that wait.
        self._num_waiting = 0

    def partition_changed(self, key: TopicPartition) -> None:
        self.changed("topic", key.topic)

    def changed(self, kind: str, which: Hashable) -> None:
        """Try the tests that wait for it; see `Condition.key`."""
        if self._num_waiting:
            self.purgatory.notify((kind, which))

    async def until(self, conditions: Sequence[Condition], timeout: float) -> None:
        """Wait until all conditions hold together, at most `timeout` seconds."""
        keys = {key for condition in conditions for key in (condition.key, *condition.other_keys)}
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
        except PurgatoryClosedError:
            raise ClusterError("wait_for: the cluster has stopped") from None
        finally:
            self._num_waiting -= 1
