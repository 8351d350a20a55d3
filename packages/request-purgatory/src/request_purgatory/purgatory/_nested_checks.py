"""Checks that callbacks make inside of checks.

A chain of any length, on a stack of bounded depth. Compiled, as a signal handler that raises
between two bytecodes here would lose a check.
"""

from __future__ import annotations

import reprlib
from collections import OrderedDict
from collections.abc import Hashable

from request_purgatory.errors import NotificationLoopError
from request_purgatory.purgatory.operation import OperationHost

#: How often in a row a check of one key may end nothing and come back.
MOST_IN_VAIN = 1000


#: By the tags of threads, the checks that came too deep inside of others, each once, in the order
#: in which they came.
postponed: dict[int, OrderedDict[tuple[int, Hashable], OperationHost]] = {}


def postpone(thread: int, purgatory: OperationHost, key: Hashable) -> None:
    """Leave a check to the outermost one of this thread, which makes it before it returns."""
    # By the purgatory's id: a subclass may define equality.
    postponed.setdefault(thread, OrderedDict())[id(purgatory), key] = purgatory


def check_postponed(thread: int) -> None:
    """Make the checks that were postponed on a thread, and those that they postpone.

    `thread` is `primitives.thread_tag()`: Python's `get_ident` may be another one, as gevent
    replaces it by one for each greenlet. NotificationLoopError if one comes back again and again:
    it is left out, and the others are made. What a check raises, such as KeyboardInterrupt, is
    raised once all were made.
    """
    checks = postponed.get(thread)
    if checks is None:
        return
    leaving: BaseException | None = None
    loops = False
    in_vain: dict[tuple[int, Hashable], int] = {}
    while checks:
        # It calls no `__hash__` of a key, which may raise.
        check, purgatory = checks.popitem(last=False)
        _, key = check
        try:
            if loops and in_vain.get(check, 0) >= MOST_IN_VAIN:
                continue
            if purgatory._check(key, True):
                in_vain.clear()
                continue
        except BaseException as error:
            leaving = error
        times = in_vain.get(check, 0) + 1
        in_vain[check] = times
        if times == MOST_IN_VAIN and not loops:  # The first of them is named.
            loops = True
            leaving = loop_error(key)
    postponed.pop(thread, None)  # Another greenlet of the thread may have done so.
    if leaving is not None:
        raise leaving


def loop_error(key: Hashable) -> NotificationLoopError:
    return NotificationLoopError(f"the check of watch key {reprlib.repr(key)}", MOST_IN_VAIN)
