"""The exceptions of this package, each with the values that caused it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NoReturn

# The field itself: a metaclass may have a `__name__` of its own, which raises.
_get_name: Callable[[type], str] = vars(type)["__name__"].__get__


class PurgatoryError(Exception):
    """Base class of the exceptions of this package."""


class InvalidArgumentError(PurgatoryError, ValueError):
    """An argument has a value that is not allowed.

    Attributes:
        name: The argument's name.
        requirement: What the argument must be.
        value: The value that was given.
    """

    def __init__(self, name: str, requirement: str, value: object) -> None:
        super().__init__(f"{name} must be {requirement}, got {shown(value)}")
        self.name = name
        self.requirement = requirement
        self.value = value

    def __reduce__(self) -> tuple[type[InvalidArgumentError], tuple[str, str, object]]:
        return type(self), (self.name, self.requirement, self.value)


def whole_number(name: str, value: object, requirement: str = "a whole number (an int)") -> int:
    """Return an int; InvalidArgumentError for floats, bools and all that is none."""
    # By the type, as `operator.index` does: the class `int` has a method of this name, too.
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise InvalidArgumentError(name, requirement, value)
    return operator.index(value)  # type: ignore[arg-type]


def number_within(name: str, value: object, least: int, most: int) -> int:
    """Return an int; InvalidArgumentError if it is none, or a float, or out of range."""
    number = whole_number(name, value)
    if number < least:
        raise InvalidArgumentError(name, f"at least {least}", value)
    if number > most:
        raise InvalidArgumentError(name, f"at most {most}", value)
    return number


def checked_name(name: object) -> str:
    """Return a name as a str, not one of a subclass; InvalidArgumentError if it is none."""
    if not isinstance(name, str):
        raise InvalidArgumentError("name", "a str", name)
    return str.__str__(name)


def shown(value: object) -> str:
    """Return the `repr` of a value, which is user code and may raise, as a plain string."""
    try:
        return str.__str__(repr(value))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as failure:
        return f"<{type_name(value)} whose repr raises {type_name(failure)}>"


def type_name(value: object) -> str:
    """Return the name of a value's class, whatever its metaclass says of `__name__`."""
    return _get_name(type(value))


def unhashable(name: str, key: object, error: BaseException) -> BaseException:
    """Return an InvalidArgumentError in place of the TypeError of a key's hash; else the error."""
    if type(error) is not TypeError:
        return error
    refusal = InvalidArgumentError(name, "hashable", key)
    refusal.__cause__ = error
    return refusal


def require_type(name: str, value: object, kind: type) -> None:
    """Raise TypeError as the compiled build does before a call."""
    if not isinstance(value, kind):
        raise TypeError(f"argument {name!r} must be a {kind.__name__}, got {shown(value)}")


def refuse_copy(target: object, memo: object = None) -> NoReturn:  # noqa: ARG001
    """Be the `__copy__` and `__deepcopy__` of what holds requests."""
    raise TypeError(f"{type_name(target)} can't be copied: it may be in use, or hold what waits")


def refuse_pickling(target: object) -> NoReturn:
    """Be the `__reduce__` of what holds requests."""
    raise TypeError(f"{type_name(target)} can't be pickled: it may be in use, or hold what waits")


class TaskInUseError(PurgatoryError, RuntimeError):
    """A task or operation was added to a second timer or purgatory while the first still has it."""


class NotInitializedError(PurgatoryError, RuntimeError):
    """A subclass of TimerTask or DelayedOperation does not call its base's `__init__`.

    Attributes:
        kind: The name of the subclass.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(f"{kind}.__init__ did not call super().__init__(...): add that call")
        self.kind = kind

    def __reduce__(self) -> tuple[type[NotInitializedError], tuple[str]]:
        return type(self), (self.kind,)


class NotCompletedError(PurgatoryError, RuntimeError):
    """`try_complete` returned a true value although it did not complete the operation.

    Attributes:
        kind: The name of the operation's class.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"{kind}.try_complete returned a true value without completing the operation: "
            "return self.force_complete()"
        )
        self.kind = kind

    def __reduce__(self) -> tuple[type[NotCompletedError], tuple[str]]:
        return type(self), (self.kind,)


class NotificationLoopError(PurgatoryError, RuntimeError):
    """A condition notifies its own watch key each time it is checked, which would never end.

    Attributes:
        cause: The check that notified itself, such as "the check of watch key 3".
        times: The number of notifications in a row.
    """

    def __init__(self, cause: str, times: int) -> None:
        super().__init__(f"{cause} caused an event for itself {times} times in a row")
        self.cause = cause
        self.times = times

    def __reduce__(self) -> tuple[type[NotificationLoopError], tuple[str, int]]:
        return type(self), (self.cause, self.times)


class InterruptedUseError(PurgatoryError, RuntimeError):
    """A signal handler or finalizer used an object that its own thread was changing.

    Only the interpreted build raises this.
    """

    def __init__(self) -> None:
        super().__init__(
            "a signal handler or finalizer interrupted this thread inside of the interpreted core, "
            "and can't use it: let another thread do it, or install the compiled build"
        )

    def __reduce__(self) -> tuple[type[InterruptedUseError], tuple[()]]:
        return type(self), ()


class OperationCancelledError(PurgatoryError, RuntimeError):
    """The operation that the caller waits for was cancelled, alone or with its watch key.

    Attributes:
        name: The purgatory's name.
        operation: The operation; None in a copy that was pickled, as operations can't be.
    """

    def __init__(self, name: str, operation: object) -> None:
        super().__init__(f"purgatory {name!r}: {shown(operation)} was cancelled")
        self.name = name
        self.operation = operation

    def __reduce__(
        self,
    ) -> tuple[type[OperationCancelledError], tuple[str, None], dict[str, tuple[object, ...]]]:
        # The message still has the operation's `repr`.
        return type(self), (self.name, None), {"args": self.args}


class TimerClosedError(PurgatoryError, RuntimeError):
    """The timer has been shut down and accepts no tasks.

    Attributes:
        name: The timer's name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"timer {name!r} has been shut down")
        self.name = name

    def __reduce__(self) -> tuple[type[TimerClosedError], tuple[str]]:
        return type(self), (self.name,)


class PurgatoryClosedError(PurgatoryError, RuntimeError):
    """The purgatory is closed and accepts no operations.

    Attributes:
        name: The purgatory's name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"purgatory {name!r} is closed")
        self.name = name

    def __reduce__(self) -> tuple[type[PurgatoryClosedError], tuple[str]]:
        return type(self), (self.name,)
