"""The threads that sleep until a timer has something to do."""

from __future__ import annotations

from request_purgatory import native
from request_purgatory.parker import Parker


class Sleeper(Parker):
    """A thread's sleep in a timer.

    Attributes:
        until_ms: When the thread will look again by itself, on the timer's clock; `native.LIMIT`
            where it waits without a limit.
    """

    __slots__ = ("until_ms",)

    def __init__(self) -> None:
        super().__init__()
        self.until_ms = 0


class Sleepers:
    """Those who sleep, and when the first of them wakes by itself.

    Callers hold the timer's lock for every method but `wake`.

    Attributes:
        first_ms: The earliest `until_ms`; -1 while nobody sleeps. Whoever adds something that is
            due earlier calls `wake`. It is not changed by that: until a sleeper has looked again,
            every further earlier task wakes it once more, so no wake-up depends on another one
            having been completed.
    """

    __slots__ = ("_asleep", "_spare", "first_ms")

    def __init__(self) -> None:
        self._asleep: list[Sleeper] = []
        self._spare: Sleeper | None = None
        self.first_ms = -1

    def take_spare(self) -> Sleeper | None:
        """Return the sleeper that was used last, or None: there is a new one to be made."""
        spare = self._spare
        self._spare = None
        return spare

    def enter(self, sleeper: Sleeper, until_ms: int) -> None:
        """Note that a sleeper waits until `until_ms`, whether or not it did before."""
        sleeper.until_ms = until_ms
        if sleeper not in self._asleep:
            self._asleep.append(sleeper)
        self._find_first()

    def leave(self, sleeper: Sleeper) -> bool:
        """Note that a sleeper has gone, and keep it for use again.

        Returns:
            True if others still sleep. They may have left an earlier task to this one: wake them.
        """
        if sleeper in self._asleep:
            self._asleep.remove(sleeper)
        self._find_first()
        self._spare = sleeper
        return len(self._asleep) > 0

    def expect(self, until_ms: int) -> None:
        """Ask for a `wake` by whoever adds something that is due before `until_ms`, although nobody sleeps."""
        self.first_ms = until_ms

    def _find_first(self) -> None:
        first_ms = -1
        for sleeper in self._asleep:
            if first_ms < 0 or sleeper.until_ms < first_ms:
                first_ms = sleeper.until_ms
        self.first_ms = first_ms

    def wake(self) -> None:
        """Make all of them look again. Not under the timer's lock."""
        for sleeper in list(self._asleep):
            sleeper.unpark()


#: How `Sleeper.until_ms` says "without a limit": later than any clock reads.
WITHOUT_LIMIT_MS = native.LIMIT
