"""Operations that record their callbacks."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from request_purgatory import Clock, DelayedOperation, TimerTask
from request_purgatory.purgatory.quorum import QuorumOperation

# The attribute `calls` of a probe has an octal digit for each call, the first one in the highest
# digit. One int is recorded faster than a list.
COMPLETE, EXPIRATION, CANCELLATION, EARLY, FAULT, INTERRUPTED, LATE = range(1, 8)

#: An expiration later than this is an error: a busy machine delays it by far less.
LATE_NS = 30_000_000_000


class Fault(Exception):  # noqa: N818 - not an error of the program's
    """An error that callbacks and conditions raise on purpose."""


class Event:
    """An event that has happened `count` times, as conditions see it."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Probe(DelayedOperation):
    """An operation that completes when an event has happened often enough.

    The attributes are set from outside, because an `__init__` would add a call. Each callback
    records itself in one statement without a call, so no signal handler can interrupt the
    statement. Only the thread that ends the operation changes `calls`.

    Attributes:
        calls: The callbacks so far, as `describe_calls` reads them.
        event: The event.
        need: The event's count at which the operation completes.
    """

    __slots__ = ("calls", "event", "need")

    calls: int
    event: Event
    need: int

    def try_complete(self) -> bool:
        return self.event.count >= self.need and self.force_complete()

    def on_complete(self) -> None:
        self.calls = self.calls << 3 | COMPLETE

    def on_expiration(self) -> None:
        self.calls = self.calls << 3 | EXPIRATION

    def on_cancellation(self) -> None:
        self.calls = self.calls << 3 | CANCELLATION


class TimedProbe(Probe):
    """A probe that can expire within a round, and records an early or late expiration.

    Attributes:
        clock: The purgatory's clock.
        due_ns: The deadline on that clock.
    """

    __slots__ = ("clock", "due_ns")

    clock: Clock
    due_ns: int

    def on_expiration(self) -> None:
        self.calls = self.calls << 3 | EXPIRATION
        late_ns = self.clock.now_ns - self.due_ns
        if late_ns < 0:
            self.calls = self.calls << 3 | EARLY
        elif late_ns > LATE_NS:
            self.calls = self.calls << 3 | LATE


class FaultyProbe(TimedProbe):
    """A probe that raises once.

    Attributes:
        failed_tries: The number of tries that raised. Not in `calls`, which another thread may
            change at that moment: tries overlap with the end, but not with one another.
        failing_callback: The digit of the callback that raises; 0 for none.
        failing_try: The number of the try that raises, from 1; 0 for none.
    """

    __slots__ = ("failed_tries", "failing_callback", "failing_try")

    failed_tries: int
    failing_callback: int
    failing_try: int

    def try_complete(self) -> bool:
        self.failing_try -= 1
        if not self.failing_try:
            self.failed_tries += 1
            raise Fault
        return self.event.count >= self.need and self.force_complete()

    def on_complete(self) -> None:
        self.calls = self.calls << 3 | COMPLETE
        self._raise_in(COMPLETE)

    def on_expiration(self) -> None:
        super().on_expiration()
        self._raise_in(EXPIRATION)

    def on_cancellation(self) -> None:
        self.calls = self.calls << 3 | CANCELLATION
        self._raise_in(CANCELLATION)

    def _raise_in(self, callback: int) -> None:
        if self.failing_callback == callback:
            self.calls = self.calls << 3 | FAULT
            raise Fault


class ChainedProbe(Probe):
    """A probe whose callback causes another event.

    Attributes:
        cause: The purgatory's function that handles an event.
        caused: The event.
        key: The event's key.
    """

    __slots__ = ("cause", "caused", "key")

    cause: Callable[[Hashable], object]
    caused: Event
    key: Hashable

    def on_complete(self) -> None:
        self.calls = self.calls << 3 | COMPLETE
        self.caused.count += 1
        self.cause(self.key)


class QuorumProbe(QuorumOperation):
    """The operation behind `gather`, which records its callbacks."""

    __slots__ = ("calls",)

    calls: int

    def on_complete(self) -> None:
        self.calls = self.calls << 3 | COMPLETE
        super().on_complete()

    def on_expiration(self) -> None:
        self.calls = self.calls << 3 | EXPIRATION

    def on_cancellation(self) -> None:
        self.calls = self.calls << 3 | CANCELLATION
        super().on_cancellation()


class EventCondition:
    """The condition of a held request; it raises if `need` is negative."""

    __slots__ = ("event", "need")

    def __init__(self, event: Event, need: int) -> None:
        self.event = event
        self.need = need

    def __call__(self) -> bool:
        if self.need < 0:
            raise Fault
        return self.event.count >= self.need


class CyclicProbe(DelayedOperation):
    """An operation in a reference cycle with the purgatory that holds it."""

    __slots__ = ("purgatory",)

    purgatory: object

    def try_complete(self) -> bool:
        return False


class CountedTask(TimerTask):
    """A task of a timer that counts how it ends.

    Attributes:
        adds: How often the timer accepted the task. Only the thread that made the task adds and
            cancels it.
        cancels: How often `cancel` returned True.
        runs: How often the timer ran the task.
        drops: How often the timer dropped the task because its executor had.
        early: How often the timer ran the task before its time.
    """

    __slots__ = ("adds", "cancels", "clock", "drops", "due_ns", "early", "runs")

    def __init__(self, delay_ms: int, clock: Clock) -> None:
        super().__init__(delay_ms)
        self.clock = clock
        self.due_ns = clock.now_ns + delay_ms * 1_000_000
        self.adds = self.cancels = self.runs = self.drops = self.early = 0

    def run(self) -> None:
        self.runs += 1
        if self.clock.now_ns < self.due_ns:
            self.early += 1

    def drop(self) -> None:
        self.drops += 1


def describe_calls(calls: int) -> str:
    """Return the names of the callbacks in `calls`, in order."""
    names = (
        "",
        "on_complete",
        "on_expiration",
        "on_cancellation",
        "(early)",
        "(raised)",
        "(interrupted)",
        "(late)",
    )
    return " ".join(names[int(digit)] for digit in f"{calls:o}" if digit != "0") or "no callback"
