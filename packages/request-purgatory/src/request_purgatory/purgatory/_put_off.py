"""What is raised where an end has to go on: kept until the callbacks have run."""

from __future__ import annotations

from request_purgatory._native import primitives


class PutOff:
    """By thread, the last exception that came between an operation's end and its callbacks.

    Such as what a signal handler raises inside of a clock that is written in Python. An end is made
    once, so it goes on, and raises the exception once its callbacks have run. This is the base of
    purgatories: an end where nothing was put off looks at one field, None before the first time.
    """

    __slots__ = ("_interrupts",)

    _interrupts: dict[int, BaseException] | None

    def _put_off(self, error: BaseException) -> None:
        """Keep an exception for the thread's next `_raise_interrupt`, if there is memory for it."""
        try:
            if self._interrupts is None:
                self._interrupts = {}
            self._interrupts[primitives.thread_tag()] = error
        except MemoryError:
            pass  # The end has to be counted.

    def _raise_interrupt(self) -> None:
        """Raise what was put off on this thread, once."""
        if self._interrupts is not None:
            interrupt = self._interrupts.pop(primitives.thread_tag(), None)
            if interrupt is not None:
                raise interrupt
