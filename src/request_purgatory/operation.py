"""A delayed operation: a request that can't be answered yet."""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING

from request_purgatory.timer.task import TimerTask

if TYPE_CHECKING:
    from request_purgatory.purgatory import DelayedOperationPurgatory

# How an operation stands. It leaves PENDING once, and never comes back.
PENDING = 0
COMPLETED = 1
EXPIRED = 2
CANCELLED = 3

_OUTCOMES = (None, "completed", "expired", "cancelled")

# Whether somebody is inside try_complete, and whether it has to be called again because of an event meanwhile.
_IDLE = 0
_TRYING = 1
_TRY_AGAIN = 2

# An operation's two words above change under a lock. It is held for a handful of loads and stores and never while anything
# else is called, so operations can share locks: 64 of them keep threads apart, and cost an operation 8 bytes, not 100.
_LOCKS = tuple(threading.Lock() for _ in range(64))
_next_lock = count()


class DelayedOperation(TimerTask):
    """A request that waits until its condition holds or its time runs out; subclass it.

    `try_complete` and `on_complete` are yours to write; `on_expiration` and `on_cancellation` may be. An operation ends
    exactly once, as completed, expired or cancelled, whatever threads race for it. An operation is used once, in one
    purgatory. Any thread may call `force_complete` and `cancel`.

    Subclasses that declare `__slots__` save memory; those with an `__init__` of their own call `super().__init__(delay_ms)`.

    >>> class Ack(DelayedOperation):
    ...     def try_complete(self):
    ...         return self.force_complete()
    ...     def on_complete(self):
    ...         print("answered")
    >>> Ack(500).force_complete()
    answered
    True
    """

    __slots__ = ("_entered_ms", "_lock", "_purgatory", "_state", "_try_state")

    def __init__(self, delay_ms: int) -> None:
        """`delay_ms`: whole milliseconds until it expires; 0 or less expires as soon as one try has failed."""
        super().__init__(delay_ms)
        self._state = PENDING
        self._try_state = _IDLE
        self._entered_ms = 0
        self._purgatory: DelayedOperationPurgatory | None = None
        self._lock = _LOCKS[next(_next_lock) & 63]

    # -- yours to write

    def try_complete(self) -> bool:
        """If the condition holds, `return self.force_complete()`; otherwise return False.

        Called by any thread that brings an event, but never by two at a time for one operation.
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
        return self._state != PENDING

    @property
    def outcome(self) -> str | None:
        """ "completed", "expired" or "cancelled"; None while it is pending."""
        return _OUTCOMES[self._state]

    def force_complete(self) -> bool:
        """End the operation as completed and call `on_complete`. True for the one caller that ended it.

        What `on_complete` raises reaches the caller; the operation has ended all the same.
        """
        if not self._end(COMPLETED):
            return False
        self.on_complete()
        return True

    def cancel(self) -> bool:
        """End the operation unanswered and call `on_cancellation`. True for the one caller that ended it."""
        if not self._end(CANCELLED):
            return False
        self.on_cancellation()
        return True

    def run(self) -> None:
        """Called by the timer when time has run out. What the callbacks raise is logged and counted by the purgatory."""
        try:
            self._expire()
        except Exception as error:
            purgatory = self._purgatory
            if purgatory is None:
                raise  # Alone on a timer, which contains it.
            purgatory._callback_failed(self, error)

    def _expire(self) -> bool:
        """End as expired. Both callbacks are called, even if the first one raises. True for the caller that did it."""
        if not self._end(EXPIRED):
            return False
        try:
            self.on_complete()
        finally:
            self.on_expiration()
        return True

    def _end(self, state: int) -> bool:
        """Leave PENDING for `state`, then the timer and the purgatory's counts. True for the one caller that did it.

        The order matters: whoever is told of the end, by a callback, finds `num_delayed` without this operation.
        """
        with self._lock:
            if self._state != PENDING:
                return False
            self._state = state
            purgatory = self._purgatory
        TimerTask.cancel(self)
        if purgatory is not None:
            purgatory._operation_ended(self, state)
        return True

    # -- one try at a time

    def _try(self) -> bool:
        """`try_complete`, never two at a time; True if this call's try ended the operation.

        A thread that finds a try running does not wait: it leaves a note, and the thread that is trying tries again before it
        goes. So an event is never lost, and no thread holds a lock, or waits for one, while a condition is looked at. That
        also makes it safe for a try to cause an event for its own operation.
        """
        with self._lock:
            if self._state != PENDING:
                return False
            if self._try_state != _IDLE:
                self._try_state = _TRY_AGAIN
                return False
            self._try_state = _TRYING
        while True:
            completed = False
            error: Exception | None = None
            try:
                completed = self.try_complete() and self._state == COMPLETED
            except Exception as raised:
                error = raised
            except BaseException:
                self._try_state = _IDLE
                raise
            with self._lock:
                if self._try_state != _TRY_AGAIN or self._state != PENDING:
                    self._try_state = _IDLE
                    break
                self._try_state = _TRYING
            if error is not None:
                # The next try decides; this one's error is not swallowed for that.
                purgatory = self._purgatory
                if purgatory is not None:
                    purgatory._callback_failed(self, error)
        if error is not None:
            raise error
        return completed

    def _enter(self, purgatory: DelayedOperationPurgatory, now_ms: int) -> int:
        """Note whose operation this is; the state at that moment, which the purgatory has to count if it is an end."""
        with self._lock:
            self._entered_ms = now_ms
            self._purgatory = purgatory
            return self._state

    def __repr__(self) -> str:
        return f"<{type(self).__name__} delay_ms={self.delay_ms} {self.outcome or 'pending'}>"
