"""What has to happen once a group's state is whole again: answers, wake-ups, appends."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from types import TracebackType

logger = logging.getLogger(__name__)


class ActionQueue:
    """Actions that wait for the end of the outermost `with` block, and run there in the order in which they were added.

    Whoever is answered, notified or appended to may call the coordinator again at once. So every
    entry to the coordinator - a request, an operation's callback, an append's end - is a block of
    this queue, and inside it such calls are only noted. An action that enters the coordinator again
    adds to the same queue, which is run until it is empty.

    >>> actions = ActionQueue()
    >>> with actions:
    ...     actions.add(lambda: print("answer"))
    ...     with actions:
    ...         actions.add(lambda: print("wake up"))
    ...     print("state is whole")
    state is whole
    answer
    wake up
    """

    def __init__(self) -> None:
        self._actions: deque[Callable[[], object]] = deque()
        self._depth = 0

    def add(self, action: Callable[[], object]) -> None:
        """Note an action; only inside a block."""
        assert self._depth, "an action outside of every block would never run"
        self._actions.append(action)

    def __enter__(self) -> ActionQueue:
        self._depth += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Run before the depth falls to 0, so that an action's own block leaves the running to this
        # one.
        try:
            while self._depth == 1 and self._actions:
                action = self._actions.popleft()
                try:
                    action()
                except Exception:
                    logger.exception(
                        "%r of the group coordinator failed; what else is to be done goes on",
                        action,
                    )
        finally:
            self._depth -= 1
