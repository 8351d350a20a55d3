"""SIGINT and SIGTERM, for work that is to stop in good order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether the process was asked to stop.

    Attributes:
        number: the signal's number, 0 as long as there was none.
    """

    def __init__(self) -> None:
        self.number = 0

    def __bool__(self) -> bool:
        return self.number != 0

    @property
    def name(self) -> str:
        """The signal's name."""
        return signal.Signals(self.number).name

    @property
    def exit_code(self) -> int:
        """As a shell gives it for a process that the signal ended."""
        return 128 + self.number


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Note SIGINT and SIGTERM in the block, instead of being ended by them.

    A second one has its usual effect.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # Signals are another thread's business.
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, _frame: FrameType | None) -> None:
        request.number = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
