"""Operations that write down which of their callbacks were called, in order, in one int."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from request_purgatory import Clock, DelayedFutures, DelayedOperation, TimerTask

# One octal digit each: `calls` is their history, the first call in the highest digit.
COMPLETE, EXPIRATION, CANCELLATION, EARLY, FAULT, INTERRUPTED, LATE = range(1, 8)

#: An expiration later than this is a lost timeout: far more than any scheduling on a busy machine.
LATE_NS = 30_000_000_000


class Fault(Exception):  # noqa: N818 - not an error of the program's
    """What callbacks and conditions raise on purpose."""


class Event:
    """What conditions look at: it has happened `count` times."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Probe(DelayedOperation):
    """Waits until an event has happened often enough.

    The fields are set by its maker: an `__init__` would be a call more.

    Each callback's note is one statement without a call, so neither a signal handler nor another
    thread comes between its parts.
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
    """Knows when it is due, on the purgatory's clock.

    The only probe whose time can run out within a round.
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
    """Raises once: in its `fuse`-th try, or in the callback whose digit `faulty` is."""

    __slots__ = ("faulty", "fuse")

    faulty: int
    fuse: int

    def try_complete(self) -> bool:
        self.fuse -= 1
        if not self.fuse:
            self.calls = self.calls << 3 | FAULT
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
        if self.faulty == callback:
            self.calls = self.calls << 3 | FAULT
            raise Fault


class ChainedProbe(Probe):
    """Causes an event when it completes, from inside its callback."""

    __slots__ = ("cause", "caused", "key")

    cause: Callable[[Hashable], object]
    caused: Event
    key: Hashable

    def on_complete(self) -> None:
        self.calls = self.calls << 3 | COMPLETE
        self.caused.count += 1
        self.cause(self.key)


class QuorumProbe(DelayedFutures):
    """Delayed futures that write down their callbacks, too.

    `note_quorum` has to be their `on_done`.
    """

    __slots__ = ("calls",)

    calls: int

    def on_expiration(self) -> None:
        self.calls = self.calls << 3 | EXPIRATION


def note_quorum(quorum: QuorumProbe) -> None:
    """Write down that a quorum's end was reported."""
    quorum.calls = quorum.calls << 3 | (CANCELLATION if quorum.outcome == "cancelled" else COMPLETE)


class Until:
    """The condition of a held request; it raises if its `need` is negative."""

    __slots__ = ("event", "need")

    def __init__(self, event: Event, need: int) -> None:
        self.event = event
        self.need = need

    def __call__(self) -> bool:
        if self.need < 0:
            raise Fault
        return self.event.count >= self.need


class RingProbe(DelayedOperation):
    """Refers to the purgatory that holds it, and is dropped with it."""

    __slots__ = ("ring",)

    ring: object

    def try_complete(self) -> bool:
        return False


class CountedTask(TimerTask):
    """A timer's task that is added and moved by several threads.

    Attributes:
        adds, offs: how often `add` took it, and `cancel` returned True; changed by the thread that
            made it alone.
        runs, drops: how often the timer ran it, or its executor dropped it.
    """

    __slots__ = ("adds", "clock", "drops", "due_ns", "early", "offs", "runs")

    def __init__(self, delay_ms: int, clock: Clock) -> None:
        super().__init__(delay_ms)
        self.clock = clock
        self.due_ns = clock.now_ns + delay_ms * 1_000_000
        self.adds = self.offs = self.runs = self.drops = self.early = 0

    def run(self) -> None:
        self.runs += 1
        if self.clock.now_ns < self.due_ns:
            self.early += 1

    def drop(self) -> None:
        self.drops += 1


def history(calls: int) -> str:
    """Return the callbacks that `calls` stands for, in order."""
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
