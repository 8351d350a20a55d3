"""The threads that sleep until a timer has something to do."""

from __future__ import annotations

from request_purgatory._native.parker import Parker


class Sleeper(Parker):
    """A thread's sleep in a timer.

    Attributes:
        until_ms: When the thread will look again by itself, on the timer's clock;
            `primitives.LIMIT` where it waits without a limit, -1 while it does not sleep.
        is_taken: Whether a thread has it.
        older: The one that joined before it.
    """

    __slots__ = ("is_taken", "older", "until_ms")

    def __init__(self) -> None:
        super().__init__()
        self.until_ms = -1
        self.is_taken = True
        self.older: Sleeper | None = None


class Sleepers:
    """Those who sleep, and when the first of them wakes by itself.

    Callers hold the timer's lock for every method but `wake`. They are a chain that only grows, to
    as many as ever slept at a time: so nothing here needs memory, and `wake` walks it without the
    lock.

    Attributes:
        first_ms: The earliest `until_ms`; -1 while nobody sleeps. Whoever adds something that is
            due earlier calls `wake`. It is not changed by that: until a sleeper has looked again,
            every further earlier task wakes it once more, so no wake-up depends on another one
            having been completed.
    """

    __slots__ = ("_newest", "first_ms")

    def __init__(self) -> None:
        self._newest: Sleeper | None = None
        self.first_ms = -1

    def take(self) -> Sleeper | None:
        """Return a sleeper that no thread has.

        None if there is none, and a new one has to `join`.
        """
        sleeper = self._newest
        while sleeper is not None and sleeper.is_taken:
            sleeper = sleeper.older
        if sleeper is not None:
            sleeper.is_taken = True
        return sleeper

    def join(self, sleeper: Sleeper) -> None:
        """Add a new sleeper, which stays for others to take."""
        sleeper.older = self._newest
        self._newest = sleeper

    def enter(self, sleeper: Sleeper, until_ms: int) -> None:
        """Note that a sleeper waits until `until_ms`, whether or not it did before."""
        sleeper.until_ms = until_ms
        self._find_first()

    def leave(self, sleeper: Sleeper) -> bool:
        """Note that a sleeper has gone.

        Returns:
            True if others still sleep. They may have left an earlier task to this one: wake them.
        """
        sleeper.until_ms = -1
        sleeper.is_taken = False
        self._find_first()
        return self.first_ms >= 0

    def expect(self, until_ms: int) -> None:
        """Ask for a `wake` by whoever adds something that is due before `until_ms`, although nobody sleeps."""
        self.first_ms = until_ms

    def _find_first(self) -> None:
        first_ms = -1
        sleeper = self._newest
        while sleeper is not None:
            until_ms = sleeper.until_ms
            if until_ms >= 0 and (first_ms < 0 or until_ms < first_ms):
                first_ms = until_ms
            sleeper = sleeper.older
        self.first_ms = first_ms

    def wake(self) -> None:
        """Make all of them look again. Not under the timer's lock."""
        sleeper = self._newest
        while sleeper is not None:
            if sleeper.until_ms >= 0:
                sleeper.unpark()
            sleeper = sleeper.older
