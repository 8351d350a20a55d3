"""A delayed operation: a request that can't be answered yet."""

from __future__ import annotations

import os
from collections.abc import Callable

from request_purgatory._native import primitives, states
from request_purgatory.errors import NotCompletedError, NotificationLoopError
from request_purgatory.purgatory.watch import Watch
from request_purgatory.timer.task import TimerTask

#: How often in a row a try may cause an event for its own operation.
_MOST_TRIES_FOR_ITSELF = 1000

_OUTCOMES = (None, "completed", "expired", "cancelled")


def _renew_locks() -> None:
    """Make the locks that operations share free in a forked child, where who held one is no more."""
    primitives.renew_locks()


if hasattr(os, "register_at_fork"):  # Not on Windows, which does not fork.
    os.register_at_fork(after_in_child=_renew_locks)


class Keeper:
    """What an operation knows of the purgatory that holds it."""

    __slots__ = ("end_listener",)

    #: Called with each operation that has ended, by the thread that ended it, after its callbacks;
    #: must not raise.
    end_listener: Callable[[DelayedOperation], object] | None

    def _operation_ended(self, operation: DelayedOperation, state: int) -> None:
        """An operation of this purgatory has left PENDING for `state`."""
        raise NotImplementedError

    def _callback_failed(self, operation: DelayedOperation, error: BaseException) -> None:
        """An operation's own code raised where nobody else can be told."""
        raise NotImplementedError

    def _now_ms(self) -> int:
        """Whole milliseconds on the clock that times operations out."""
        raise NotImplementedError

    def _callbacks_ran(self, operation: DelayedOperation, began_ms: int) -> None:
        """The timer has ended an operation, which it came to at `began_ms`, and its callbacks have run."""
        raise NotImplementedError


class DelayedOperation(TimerTask):
    """A request that waits until its condition holds or its time runs out; subclass it.

    `try_complete` and `on_complete` are yours to write; `on_expiration` and `on_cancellation` may
    be. An operation ends exactly once, as completed, expired or cancelled, whatever threads race
    for it. An operation is used once, in one purgatory. Any thread may call `force_complete` and
    `cancel`.

    Subclasses that declare `__slots__` save memory; those with an `__init__` of their own call
    `super().__init__(delay_ms)`.

    >>> class Ack(DelayedOperation):
    ...     def try_complete(self):
    ...         return self.force_complete()
    ...     def on_complete(self):
    ...         print("answered")
    >>> Ack(500).force_complete()
    answered
    True
    """

    __slots__ = ("_entered_ms", "_purgatory", "_state", "_trier", "_try_state", "_watches")

    # The state and the try state change under `primitives.lock(self)`, which is held for a handful
    # of loads and stores.

    def __init__(self, delay_ms: int) -> None:
        """`delay_ms`: whole milliseconds until it expires.

        0 or less expires as soon as one try has failed.
        """
        self._begin(delay_ms)
        if not primitives.COMPILED:  # A constant: compiled, they begin as this.
            self._state = states.PENDING
            self._try_state = states.IDLE
            self._trier = 0  # the thread that is inside a try
            self._entered_ms = 0
            self._purgatory: Keeper | None = None
            self._watches: Watch | None = None  # the first of a chain

    # -- yours to write

    def try_complete(self) -> bool:
        """If the condition holds, `return self.force_complete()`; otherwise return False.

        Called by any thread that brings an event, but never by two at a time for one operation. A
        try that causes an event for its own operation is repeated, up to 1,000 times in a row.
        NotCompletedError is raised for a true value of an operation that is still pending.
        """
        raise NotImplementedError

    def on_complete(self) -> None:
        """Answer the request. Called exactly once when the operation completed or expired."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Called once after `on_complete` when the timeout ended the operation."""

    def on_cancellation(self) -> None:
        """Called once, instead of `on_complete`, when the operation was cancelled: nobody answered the request.

        Not called where `try_complete_else_watch` raises: its caller has been told by that.
        """

    # -- the operation's end

    @property
    def is_completed(self) -> bool:
        """True once the operation has ended, however it did."""
        return self._state != states.PENDING

    @property
    def outcome(self) -> str | None:
        """ "completed", "expired" or "cancelled"; None while it is pending."""
        return _OUTCOMES[self._state]

    def force_complete(self) -> bool:
        """End the operation as completed and call `on_complete`.

        True for the one caller that ended it.

        What `on_complete` raises reaches the caller; the operation has ended all the same.
        """
        if not self._end(states.COMPLETED):
            return False
        try:
            self.on_complete()
        finally:
            self._answered()
        return True

    def cancel(self) -> bool:
        """End the operation unanswered and call `on_cancellation`.

        True for the one caller that ended it.
        """
        if not self._end(states.CANCELLED):
            return False
        try:
            self.on_cancellation()
        finally:
            self._answered()
        return True

    def run(self) -> None:
        """Called by the timer when time has run out.

        What the callbacks raise is logged and counted by the purgatory.
        """
        purgatory = self._purgatory
        if purgatory is None:
            self._expire()  # Alone on a timer, which contains what it raises.
            return
        began_ms = purgatory._now_ms()
        try:
            if not self._expire():
                return
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            purgatory._callback_failed(self, error)
        purgatory._callbacks_ran(self, began_ms)

    def drop(self) -> None:
        """End as cancelled.

        The timer's executor will not run the expiration that it had accepted.
        """
        self.cancel()

    def _disown(self) -> None:
        """End in a forked child, and tell nobody: the request is the parent's to answer."""
        if self._state == states.PENDING:
            self._state = states.CANCELLED
        self._unlink()

    def _expire(self) -> bool:
        """End as expired.

        Both callbacks are called, even if the first one raises. True for the caller that did it.
        """
        if not self._end(states.EXPIRED):
            return False
        try:
            self.on_complete()
        finally:
            try:
                self.on_expiration()
            finally:
                self._answered()
        return True

    def _answered(self) -> None:
        """The operation has ended and its callbacks have run."""
        purgatory = self._purgatory
        if purgatory is not None and purgatory.end_listener is not None:
            purgatory.end_listener(self)

    def _end(self, state: int) -> bool:
        """Leave PENDING for `state`, then the timer and the purgatory's counts.

        True for the one caller that did it.

        The order matters: whoever is told of the end, by a callback, finds `num_delayed` without
        this operation.
        """
        primitives.lock(self)
        if self._state != states.PENDING:
            primitives.unlock(self)
            return False
        self._state = state
        purgatory = self._purgatory if self._entered_ms >= 0 else None
        primitives.unlock(self)
        self._unlink()
        if purgatory is not None:
            purgatory._operation_ended(self, state)
        return True

    # -- one try at a time

    def _try(self) -> bool:
        """`try_complete`, never two at a time; True if this call's try ended the operation.

        A thread that finds a try running does not wait: it leaves a note, and the thread that is
        trying tries again before it goes. So an event is never lost, and no thread holds a lock, or
        waits for one, while a condition is looked at. That also makes it safe for a try to cause an
        event for its own operation.
        """
        mark = primitives.thread_mark()
        primitives.lock(self)
        if self._state != states.PENDING:
            primitives.unlock(self)
            return False
        if self._try_state != states.IDLE:
            if self._trier != mark:
                self._try_state = states.TRY_AGAIN
            elif self._try_state == states.TRYING:
                self._try_state = states.TRY_AGAIN_FOR_ITSELF
            primitives.unlock(self)
            return False
        self._try_state = states.TRYING
        self._trier = mark
        primitives.unlock(self)
        leaving: BaseException | None = None
        tries_for_itself = 0
        while True:
            completed = False
            error: BaseException | None = None
            try:
                completed = self.try_complete()
                if completed and self._state != states.COMPLETED:
                    completed = False
                    if self._state == states.PENDING:
                        raise NotCompletedError(type(self).__name__)
            except BaseException as raised:
                error = raised
            primitives.lock(self)
            again = self._try_state != states.TRYING and self._state == states.PENDING
            if again and self._try_state == states.TRY_AGAIN_FOR_ITSELF:
                tries_for_itself += 1
                again = tries_for_itself < _MOST_TRIES_FOR_ITSELF
            self._try_state = states.TRYING if again else states.IDLE
            primitives.unlock(self)
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                # The program is to end, but not before another thread's event was looked at: it may
                # go on all the same.
                leaving = error
                error = None
            if not again:
                break
            if error is not None:
                # The next try decides; this one's error is not swallowed for that.
                purgatory = self._purgatory
                assert purgatory is not None, "only a purgatory tries"
                purgatory._callback_failed(self, error)
        if leaving is not None:
            raise leaving
        if error is not None:
            raise error
        if tries_for_itself == _MOST_TRIES_FOR_ITSELF and self._state == states.PENDING:
            raise NotificationLoopError(f"{type(self).__name__}.try_complete", tries_for_itself)
        return completed

    def _meet(self, purgatory: Keeper) -> bool:
        """Note whose operation this is; False if it has been another one's.

        Its end is not the purgatory's to be told of yet.
        """
        primitives.lock(self)
        new = self._purgatory is None
        if new:
            self._entered_ms = -1
            self._purgatory = purgatory
        primitives.unlock(self)
        return new

    def _enter(self, now_ms: int) -> int:
        """From here on the purgatory is told of the end.

        The state at that moment, which it has to count if it is an end.
        """
        primitives.lock(self)
        self._entered_ms = now_ms
        state = self._state
        primitives.unlock(self)
        return state

    def _is_in_use(self) -> bool:
        return self._purgatory is not None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} delay_ms={self.delay_ms} {self.outcome or 'pending'}>"
