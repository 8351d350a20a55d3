"""The errors this package raises: one small tree, each carrying the values that were wrong."""

from __future__ import annotations

import operator


class PurgatoryError(Exception):
    """Base of every error that this package raises on purpose."""


class InvalidArgumentError(PurgatoryError, ValueError):
    """An argument is outside what is allowed.

    Attributes:
        name: the argument's name.
        requirement: what it must be.
        value: what was given.
    """

    def __init__(self, name: str, requirement: str, value: object) -> None:
        super().__init__(f"{name} must be {requirement}, got {value!r}")
        self.name = name
        self.requirement = requirement
        self.value = value

    def __reduce__(self) -> tuple[type[InvalidArgumentError], tuple[str, str, object]]:
        return type(self), (self.name, self.requirement, self.value)


def whole_number(name: str, value: object, requirement: str = "a whole number (an int)") -> int:
    """`value` as an int, or InvalidArgumentError that names it: floats and bools are refused."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidArgumentError(name, requirement, value)
    return operator.index(value)


class TaskInUseError(PurgatoryError, RuntimeError):
    """A task or an operation was handed to a second timer or purgatory while the first still has it."""


class NotInitializedError(PurgatoryError, RuntimeError):
    """A subclass of TimerTask or DelayedOperation does not call `super().__init__(delay_ms)`."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"{kind}.__init__ has to call super().__init__(delay_ms), and did not")
        self.kind = kind

    def __reduce__(self) -> tuple[type[NotInitializedError], tuple[str]]:
        return type(self), (self.kind,)


class NotCompletedError(PurgatoryError, RuntimeError):
    """`try_complete` returned a true value although it did not complete the operation."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"{kind}.try_complete returned a true value without completing the operation: return self.force_complete()"
        )
        self.kind = kind

    def __reduce__(self) -> tuple[type[NotCompletedError], tuple[str]]:
        return type(self), (self.kind,)


class NotificationLoopError(PurgatoryError, RuntimeError):
    """A condition notifies its own watch key whenever it is looked at, so that looking would never end."""

    def __init__(self, cause: str, times: int) -> None:
        super().__init__(f"{cause} caused an event for itself {times} times in a row")
        self.cause = cause
        self.times = times

    def __reduce__(self) -> tuple[type[NotificationLoopError], tuple[str, int]]:
        return type(self), (self.cause, self.times)


class InterruptedUseError(PurgatoryError, RuntimeError):
    """A signal handler or finalizer used what its own thread was in the middle of changing.

    On the interpreted build only.
    """

    def __init__(self) -> None:
        super().__init__(
            "a signal handler or finalizer interrupted this thread inside of the interpreted core, and can't use it: "
            "let another thread do it, or install the compiled build"
        )

    def __reduce__(self) -> tuple[type[InterruptedUseError], tuple[()]]:
        return type(self), ()


class OperationCancelledError(PurgatoryError, RuntimeError):
    """The operation that somebody waits for was cancelled: its key is gone, or it was cancelled itself.

    Attributes:
        name: the purgatory's name.
        operation: the operation.
    """

    def __init__(self, name: str, operation: object) -> None:
        super().__init__(f"purgatory {name!r}: {operation!r} was cancelled")
        self.name = name
        self.operation = operation

    def __reduce__(self) -> tuple[type[OperationCancelledError], tuple[str, object]]:
        return type(self), (self.name, self.operation)


class TimerClosedError(PurgatoryError, RuntimeError):
    """The timer has been shut down and takes no more tasks."""

    def __init__(self, name: str) -> None:
        super().__init__(f"timer {name!r} has been shut down")
        self.name = name

    def __reduce__(self) -> tuple[type[TimerClosedError], tuple[str]]:
        return type(self), (self.name,)


class PurgatoryClosedError(PurgatoryError, RuntimeError):
    """The purgatory has been shut down: it holds nothing and takes nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(f"purgatory {name!r} has been shut down")
        self.name = name

    def __reduce__(self) -> tuple[type[PurgatoryClosedError], tuple[str]]:
        return type(self), (self.name,)
