"""Actions that run once the code that requested them has released its state."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from request_purgatory.error_log import ErrorLog

logger = logging.getLogger(__name__)


class ActionQueue:
    """Defer replies, wake-ups and appends to the end of the outermost `with` block.

    A reply or a wake-up may call back into the component that sends it. Every entry point of such
    a component (a request, a timer's callback, the end of an append) is therefore a block of the
    component's queue. The block's code changes state and only adds actions; when the outermost
    block ends, the state is consistent again and the actions run:

    - in the order in which they were added;
    - also if the block raised;
    - an exception of one action is logged and does not stop the others;
    - actions added by an action run after those that are already queued.

    The rule is that of Kafka's DelayedActionQueue (org.apache.kafka.server.DelayedActionQueue),
    which its request handlers run after they have released their locks.

    A queue belongs to one event loop and is not safe for threads.

    >>> actions = ActionQueue()
    >>> with actions:
    ...     actions.add(lambda: print("reply"))
    ...     with actions:
    ...         actions.add(lambda: print("wake up"))
    ...     print("state is consistent")
    state is consistent
    reply
    wake up
    """

    def __init__(self) -> None:
        self._actions: deque[Callable[[], object]] = deque()
        self._errors = ErrorLog(logger)
        self._depth = 0

    def add(self, action: Callable[[], object]) -> None:
        """Add an action; the caller must be inside a block."""
        assert self._depth, "add actions inside a `with` block: outside of one, nothing runs them"
        self._actions.append(action)

    def __enter__(self) -> ActionQueue:
        self._depth += 1
        return self

    def __exit__(self, *_error: object) -> None:
        # The depth stays at 1 while the actions run, so that a block entered by an action leaves
        # the actions that it adds to this loop.
        try:
            while self._depth == 1 and self._actions:
                action = self._actions.popleft()
                try:
                    action()
                except Exception as error:
                    self._errors.log(error, "deferred action %s failed", action)
        finally:
            self._depth -= 1
