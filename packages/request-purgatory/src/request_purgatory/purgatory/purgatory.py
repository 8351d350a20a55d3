"""The purgatory of threads: requests as futures, on the core."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from datetime import timedelta
from typing import Literal, TypeVar

from request_purgatory._native import primitives
from request_purgatory.purgatory._holds_requests import documented
from request_purgatory.purgatory.core import PurgatoryCore, checked_keys, raise_last
from request_purgatory.purgatory.hold import new_hold, timeout_to_ms
from request_purgatory.purgatory.hold_future import HoldFuture
from request_purgatory.purgatory.quorum import FutureLike, Quorum, QuorumOperation

T = TypeVar("T")


class DelayedOperationPurgatory(PurgatoryCore):
    """Holds requests until their condition holds or their timeout expires; ends each exactly once.

    A request is watched under one or more *watch keys*. After a change that conditions depend on,
    call `notify(key)`, and the requests that watch the key are tried. Keys are anything hashable
    with quick `__hash__` and `__eq__` that do not call the purgatory: strings, tuples, ints. (Those
    written in Python, as of a frozen dataclass, must not be interrupted by a handler that does.)

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
        deadline: float | None = None,
        not_yet: object = ...,
        name: str | None = None,
    ) -> Future[T]:
        """As `HoldsRequests.hold`."""
        keys = checked_keys("keys", keys)
        future: HoldFuture[T] = HoldFuture()
        timeout_ms = (
            timeout_to_ms(timeout) if deadline is None else self._remaining_ms(timeout, deadline)
        )
        operation = new_hold(until, timeout_ms, future, not_yet)
        if name is None:
            self.try_complete_else_watch(operation, keys)
        else:
            self._enter_named(operation, keys, name)
        return future

    def gather(
        self,
        futures: Iterable[FutureLike],
        *,
        quorum: int | None = None,
        timeout: float | timedelta | None = None,
        deadline: float | None = None,
    ) -> Future[Quorum]:
        """As `HoldsRequests.gather`."""
        timeout_ms = (
            timeout_to_ms(timeout) if deadline is None else self._remaining_ms(timeout, deadline)
        )
        future: HoldFuture[Quorum] = HoldFuture()
        QuorumOperation(tuple(futures), quorum, timeout_ms, future).watch_in(self)
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


if not primitives.COMPILED:
    documented(PurgatoryCore)
    documented(DelayedOperationPurgatory)
