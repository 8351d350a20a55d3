"""What purgatories of threads and of event loops have in common, described once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from datetime import timedelta
from types import FunctionType
from typing import Any, Protocol, TypeVar

from request_purgatory.purgatory._metric_table import PurgatoryMetrics
from request_purgatory.purgatory._purgatory_snapshot import PurgatorySnapshot
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.quorum import FutureLike

Kind = TypeVar("Kind", bound=type)


class HoldsRequests(Protocol):
    """Requests as futures, of `concurrent.futures` or of asyncio, and what waits.

    `DelayedOperationPurgatory` and `aio.Purgatory` have these methods, and their docstrings.
    """

    def hold(
        self,
        keys: Iterable[Hashable],
        *,
        until: Callable[[], Any],
        timeout: float | timedelta | None = None,
        deadline: float | None = None,
        not_yet: object = ...,
        name: str | None = None,
    ) -> Any:
        """Wait for a condition without a subclass.

        `until` is called now, and whenever one of `keys` is notified, never by two threads at a
        time. The wait goes on while it returns a falsy value, or only `not_yet` if that is given.
        Cancelling the future, or a task that awaits it, takes the request out at once.

        Args:
            keys: One or more watch keys.
            until: The condition. On an event loop it must not block.
            timeout: Seconds or a timedelta, rounded up to whole milliseconds. What is 0 or negative
                expires at once, unless the first look finds an answer. None or infinity waits
                without a limit.
            deadline: In place of `timeout`, the moment in seconds on the purgatory's clock:
                `time.monotonic()`, or `loop.time()` of an event loop. One that has passed expires
                at once.
            not_yet: The only value, by identity, that means that there is no answer yet. With
                `not_yet=None`, 0 and "" are answers. The default stands for every falsy value.
            name: What the request is, such as "poll": snapshots, spans and the live page show it,
                and `metrics_by_name` counts by it. Without one they show the condition's name. A
                purgatory tells 100 names apart.

        Returns:
            A future of the first answer. It raises TimeoutError after `timeout`, what `until`
            raised, OperationCancelledError after `cancel_for_key`, and PurgatoryClosedError where
            the purgatory was closed.

        Raises:
            InvalidArgumentError: There is no key, or one that can't be hashed; `until` is not
                callable; the timeout or deadline is no number, or both are given; the name is no
                str.
            PurgatoryClosedError: The purgatory is closed.
            RuntimeError: The block of an event loop's purgatory was not entered, or on another loop
                or thread.
        """

    def gather(
        self,
        futures: Iterable[FutureLike],
        *,
        quorum: int | None = None,
        timeout: float | timedelta | None = None,
        deadline: float | None = None,
    ) -> Any:
        """Wait until a quorum of futures has succeeded.

        A future succeeds with a result, and fails with an exception or by being cancelled. The
        futures bring their own events. Cancelling the returned future leaves them alone.

        Args:
            futures: Futures of `concurrent.futures` or of asyncio, in any mix; on an event loop,
                futures and tasks of that loop.
            quorum: The number of futures that have to succeed; all of them unless given.
            timeout: As for `hold`.
            deadline: As for `hold`.

        Returns:
            A future of the Quorum: which futures succeeded, failed and are missing. It raises
            QuorumFailedError as soon as too many futures have failed, QuorumTimeoutError after
            `timeout`, and otherwise what the future of `hold` raises.

        Raises:
            InvalidArgumentError: The quorum is negative or more than there are futures, one is no
                future, the timeout or deadline is no number, or both are given.
            PurgatoryClosedError: The purgatory is closed.
            RuntimeError: As of `hold`.
        """

    def renew(self, operation: DelayedOperation, timeout: float | timedelta | None) -> bool:
        """Restart the timeout of a pending operation, as of a lease that is renewed. O(1).

        Args:
            operation: One of this purgatory.
            timeout: The new timeout from now on, as for `hold`.

        Returns:
            False if the operation has ended.

        Raises:
            InvalidArgumentError: The operation belongs to another purgatory, or the timeout is no
                number.
            NotInitializedError: The operation's class does not call
                `super().__init__(timeout_ms)`.
            TypeError: `operation` is no DelayedOperation.
            RuntimeError: As of `hold`.
        """

    def metrics_by_name(self) -> dict[str, PurgatoryMetrics]:
        """Return the counters of the requests of `hold` that have a name, by that.

        After 100 names, further ones are counted under "(others)". What belongs to the whole
        purgatory, such as purges and errors of callbacks, is 0.

        Raises:
            RuntimeError: The block of an event loop's purgatory was not entered.
        """

    def snapshot(self, top: int = 10) -> PurgatorySnapshot:
        """Return what waits now: by type of operation and by key, and what waits longest.

        For a debugger, a log line or a page: `print(purgatory.snapshot())`. Any thread may call it.
        O(watched), at about a microsecond for each entry of the watcher lists: with 100,000 of them
        an event loop stands still for some 0.1 s. The lock of a key's shard is held while its list
        is copied, as `check_and_complete` does, and no operation's code runs. Of each operation at
        most 65,535 tries are counted.

        Args:
            top: The most types, keys and operations to name. The rest is in the sums alone.

        Raises:
            InvalidArgumentError: `top` is below 1.
            RuntimeError: The block of an event loop's purgatory was not entered.
        """


#: The docstrings, by the methods' names.
DOCSTRINGS = {
    name: method.__doc__
    for name, method in vars(HoldsRequests).items()
    if isinstance(method, FunctionType) and not name.startswith("_")
}


def documented(kind: Kind) -> Kind:
    """Give the methods of a Python class these docstrings; `class_signatures.pyx` has C's part."""
    for name, docstring in DOCSTRINGS.items():
        if name in vars(kind):
            vars(kind)[name].__doc__ = docstring
    return kind
