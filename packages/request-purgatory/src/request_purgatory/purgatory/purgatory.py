"""The purgatory of threads: requests as futures, on the core."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from datetime import timedelta
from typing import Literal, TypeVar

from request_purgatory.purgatory.core import PurgatoryCore, checked_keys, raise_last
from request_purgatory.purgatory.hold import HoldFuture, HoldOperation, timeout_to_ms
from request_purgatory.purgatory.quorum import FutureLike, Quorum, QuorumOperation

T = TypeVar("T")


class DelayedOperationPurgatory(PurgatoryCore):
    """Holds requests until their condition holds or their timeout expires; ends each exactly once.

    A request is watched under one or more *watch keys*. After a change that conditions depend on,
    call `notify(key)`, and the requests that watch the key are tried. Keys are anything hashable
    with quick `__hash__` and `__eq__` that do not call the purgatory: strings, tuples, ints.

    There are two levels. `hold` and `gather` return futures. Below them are Kafka's names: subclass
    `DelayedOperation`, hand it to `try_complete_else_watch`, and bring events with
    `check_and_complete`, which returns how many operations it completed.

    An operation's callbacks run on the thread that ends it: completions on the thread that brought
    the event or called `force_complete`, timeouts on the reaper, or on the `executor`. Callbacks
    that take `warn_after_ms` or longer on the reaper are logged, as is a timeout that is so late;
    `metrics` has the longest of both.

    Any thread may call every method, also from callbacks of operations. Bring events while holding
    no lock that a `try_complete` or `on_complete` needs. docs/explanation/design.md, "Locks",
    describes the races and how each is decided.

    >>> with DelayedOperationPurgatory("orders") as purgatory:
    ...     acks = set()
    ...     ready = lambda: len(acks) >= 2 and sorted(acks)
    ...     held = purgatory.hold(["orders-0"], until=ready, timeout=5)
    ...     for replica in ("broker-2", "broker-3"):
    ...         acks.add(replica)
    ...         purgatory.notify("orders-0")
    ...     held.result()
    ['broker-2', 'broker-3']
    """

    def hold(
        self,
        keys: Iterable[Hashable],
        *,
        until: Callable[[], T | Literal[False] | None],
        timeout: float | timedelta | None = None,
        not_yet: object = ...,
    ) -> Future[T]:
        """Wait for a condition without a subclass.

        `until` is called now, and whenever one of `keys` is notified, never by two threads at a
        time. The wait goes on while it returns a falsy value, or only `not_yet` if that is given.
        Cancelling the future takes the request out at once.

        Args:
            keys: One or more watch keys.
            until: The condition.
            timeout: Seconds or a timedelta, not negative, rounded up to whole milliseconds. None
                waits without a limit.
            not_yet: The only value, by identity, that means that there is no answer yet. With
                `not_yet=None`, 0 and "" are answers. The default stands for every falsy value.

        Returns:
            A future of the first answer. It raises TimeoutError after `timeout`, what `until`
            raised, OperationCancelledError after `cancel_for_key`, and PurgatoryClosedError where
            the purgatory was closed.

        Raises:
            InvalidArgumentError: There is no key, `until` is not callable, or the timeout is
                negative or not a finite number.
            PurgatoryClosedError: The purgatory is closed.
        """
        future: HoldFuture[T] = HoldFuture()
        operation = HoldOperation(until, timeout_to_ms(timeout), future, not_yet)
        self.try_complete_else_watch(operation, keys)
        return future

    def gather(
        self,
        futures: Iterable[FutureLike],
        *,
        quorum: int | None = None,
        timeout: float | timedelta | None = None,
    ) -> Future[Quorum]:
        """Wait until a quorum of futures has succeeded.

        A future succeeds with a result, and fails with an exception or by being cancelled. The
        futures bring their own events. Cancelling the returned future leaves them alone.

        Args:
            futures: Futures of `concurrent.futures` or `asyncio`, in any mix.
            quorum: The number of futures that have to succeed; all of them unless given.
            timeout: As for `hold`.

        Returns:
            A future of the Quorum: which futures succeeded, failed and are missing. It raises
            QuorumFailedError as soon as too many futures have failed, QuorumTimeoutError after
            `timeout`, and otherwise what the future of `hold` raises.

        Raises:
            InvalidArgumentError: The quorum is negative or more than there are futures, one is no
                future, or the timeout is negative or not a finite number.
            PurgatoryClosedError: The purgatory is closed.
        """
        future: HoldFuture[Quorum] = HoldFuture()
        QuorumOperation(tuple(futures), quorum, timeout_to_ms(timeout), future).watch_in(self)
        return future

    def notify(self, key: Hashable) -> None:
        """Try the requests that watch `key`, in the order of their arrival.

        Call it after a change that their conditions depend on. After `close` it does nothing.
        Details and errors: `check_and_complete`.
        """
        self.check_and_complete(key)

    def notify_many(self, keys: Iterable[Hashable]) -> None:
        """Call `notify` for each of `keys`, once for a key that is given twice.

        Raises:
            InvalidArgumentError: `keys` is one string.
            BaseException: What `notify` raised, once all keys were notified.
        """
        raise_last(self.notify, checked_keys("keys", keys, at_least=0))
