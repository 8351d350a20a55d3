"""A delayed operation: a request that cannot be answered yet."""

from __future__ import annotations

import importlib
import inspect
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any, Literal, TypeAlias

from request_purgatory._native import hiding, primitives, states
from request_purgatory._native.forks import reinit_in_child
from request_purgatory.errors import NotCompletedError, NotificationLoopError, type_name
from request_purgatory.purgatory._put_off import PutOff
from request_purgatory.timer.task import TimerTask

#: How an operation ended.
Outcome: TypeAlias = Literal["completed", "expired", "cancelled"]

#: The flags of functions whose call runs nothing of them.
_DEFERRED = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR

#: How often in a row a try may cause an event for its own operation.
_MAX_SELF_NOTIFICATIONS = 1000

#: The most tries that are counted: what two bytes hold.
MAX_TRIES = 65_535

_OUTCOMES: tuple[Outcome | None, ...] = (None, "completed", "expired", "cancelled")


# In a forked child the holders of the locks that operations share are gone.
reinit_in_child(lambda: primitives.reinit_locks())


#: The methods that subclasses write. (`run` is the timer's, and a usual name for a job's work.)
_METHODS = ("try_complete", "on_complete", "on_expiration", "on_cancellation")

# The fields themselves: a metaclass may have its own, which raise.
_get_mro: Callable[[type], tuple[type, ...]] = vars(type)["__mro__"].__get__
_get_members: Callable[[type], Mapping[str, object]] = vars(type)["__dict__"].__get__

#: By their ids, the classes of which an object was made before. Interpreted build only.
_known_classes: dict[int, weakref.ref[type]] = {}


def _remember_class(kind: type) -> None:
    # Not the class itself: its metaclass may have a `__hash__` that raises.
    key = id(kind)
    _known_classes[key] = weakref.ref(kind, lambda _: _known_classes.pop(key, None))


def _members(operation: DelayedOperation) -> list[Mapping[str, object]]:
    return [_get_members(base) for base in _get_mro(type(operation))]


def _check_private_names(operation: DelayedOperation) -> None:
    """Raise TypeError if a class of users has taken a private name of the core.

    Interpreted, it would be used in place of that, and the operation would not end. Compiled, what
    an operation's end needs has no names that a class could take.
    """
    own = {**_get_members(TimerTask), **_get_members(DelayedOperation)}
    for members in _members(operation):
        if str(members.get("__module__")).startswith("request_purgatory."):
            return
        for name in members:
            is_private = name.startswith("_") and not name.startswith("__")
            if is_private and name != "_abandon_in_child" and name in own:
                raise TypeError(
                    f"{type_name(operation)}.{name} has a private name of DelayedOperation: "
                    "give it another one"
                )


def _check_methods(operation: DelayedOperation) -> None:
    """Raise TypeError if the purgatory can't call a method of the operation's class."""
    for name in _METHODS:
        (method, *_) = [members[name] for members in _members(operation) if name in members]
        if type(method) is FunctionType and method.__code__.co_flags & _DEFERRED:
            raise TypeError(
                f"{type_name(operation)}.{name} must be a plain function: the purgatory calls it, "
                "and neither awaits a coroutine nor runs a generator"
            )
    if not primitives.COMPILED:
        _check_private_names(operation)
    for name in ("run", "drop"):
        (method, *_) = [members[name] for members in _members(operation) if name in members]
        if method is not _get_members(DelayedOperation)[name]:
            raise TypeError(
                f"{type_name(operation)}.{name} can't be overridden: the timer calls it to end the "
                "operation; give the method another name"
            )


#: The hooks of a purgatory, as `PurgatoryCore` describes them.
WatchHook: TypeAlias = Callable[["DelayedOperation", Sequence[Hashable]], object]
Hook: TypeAlias = Callable[["DelayedOperation"], object]


class OperationHost(PutOff):
    """The interface of a purgatory to the operations in it.

    Operations and the futures made of them call nothing else. Private, as its methods belong to the
    purgatory's own machinery; docs/explanation/design.md, "The host interface", lists them.

    Attributes:
        name: The purgatory's name.
        on_watch, on_try, on_end: The hooks; None calls nothing.
    """

    __slots__ = ("name", "on_end", "on_try", "on_watch")

    name: str
    on_watch: WatchHook | None
    on_try: Hook | None
    on_end: Hook | None

    @property
    def is_closed(self) -> bool:
        raise NotImplementedError

    def try_complete_else_watch(
        self, operation: DelayedOperation, watch_keys: Iterable[Hashable]
    ) -> bool:
        raise NotImplementedError

    def check_and_complete(self, key: Hashable) -> int:
        raise NotImplementedError

    def _check(self, key: Hashable, counts_ends: bool) -> int:
        raise NotImplementedError

    def _discard(self, operation: DelayedOperation) -> bool:
        raise NotImplementedError

    def _operation_ended(self, operation: DelayedOperation, state: int, now_ms: int) -> None:
        """Count an operation of this purgatory that has left PENDING for `state`; never raises.

        Of EXPIRED, `now_ms` is the time; `primitives.LIMIT` where nobody has looked.
        """
        raise NotImplementedError

    def _callback_failed(self, operation: DelayedOperation, error: BaseException) -> None:
        """Log and count what an operation's own code raised where no caller can be told."""
        raise NotImplementedError

    def _now_or(self, otherwise_ms: int) -> int:
        """Return the timer's time, or `otherwise_ms` where the clock raises.

        An Exception is logged; anything else is put off until `_raise_interrupt`.
        """
        raise NotImplementedError

    def _ran_early(self, operation: DelayedOperation) -> None:
        """Take back a pending operation that the timer has run before its deadline."""
        raise NotImplementedError

    def _callbacks_ran(self, operation: DelayedOperation, began_ms: int) -> int:
        """Measure the callbacks of an operation that the timer ended, from `began_ms` on.

        Return the time at their end, `primitives.LIMIT` where nobody has looked.
        """
        raise NotImplementedError


class DelayedOperation(TimerTask):
    """A request that waits until its condition holds or its timeout expires; subclass it.

    Write `try_complete` and `on_complete`, and `on_expiration` and `on_cancellation` where they are
    needed. An operation ends exactly once, as completed, expired or cancelled, whichever threads
    race for it. An operation is used once, in one purgatory. Any thread may call `force_complete`
    and `cancel`.

    Subclasses that declare `__slots__` save memory. Those with an `__init__` of their own call
    `super().__init__(timeout_ms)`.

    >>> class Ack(DelayedOperation):
    ...     def try_complete(self):
    ...         return self.force_complete()
    ...     def on_complete(self):
    ...         print("answered")
    >>> Ack(timeout_ms=500).force_complete()
    answered
    True
    """

    __slots__ = (
        "_entered_ms",
        "_next_in_chain",
        "_purgatory",
        "_state",
        "_trier",
        "_tries",
        "_try_state",
        "_watches",
    )

    # The state, the try state and the deadline (`_entered_ms`, `_timer_delay_ms`) change under
    # `primitives.lock_object(self)`, which is held for a few loads and stores.

    def __init__(self, timeout_ms: int) -> None:
        """Make an operation that no purgatory has yet.

        Args:
            timeout_ms: Whole milliseconds until the operation expires. 0 or less expires as soon as
                one try has failed.

        Raises:
            InvalidArgumentError: `timeout_ms` is not a whole number, or is more than 10,000 years.
            TaskInUseError: Called again, and the operation is or was in a purgatory.
            TypeError: A method that the purgatory calls is a coroutine or generator function.
        """
        self._init_operation(timeout_ms)

    def _init_operation(self, timeout_ms: int) -> None:
        # As `_init_task`.
        if primitives.COMPILED:  # A constant. Interpreted, there is no such field before.
            in_use = self._purgatory is not None
        else:
            in_use = getattr(self, "_purgatory", None) is not None
        if in_use:
            self._refuse_init()
        self._init_task("timeout_ms", timeout_ms)
        if not primitives.COMPILED:  # A constant: compiled, the fields begin with these values.
            self._state = states.PENDING
            self._try_state = states.IDLE
            self._tries = 0  # for snapshots
            self._trier = 0  # the thread that is inside a try
            self._entered_ms = 0
            self._purgatory: OperationHost | None = None
            self._watches: dict[int, Any] = {}  # by number, the WatcherLists that it is in
            self._next_in_chain: DelayedOperation | None = None  # of an OperationChain
            if id(type(self)) not in _known_classes:
                _check_methods(self)
                _remember_class(type(self))
        elif primitives.is_made_slowly(self):
            # Once for each class. That module imports this one.
            _check_methods(self)
            construction = importlib.import_module("request_purgatory._native.construction")
            construction.construct_quickly(type(self))

    # -- to be written by subclasses

    def try_complete(self) -> bool:
        """Return `self.force_complete()` if the condition holds, else False.

        Called by any thread that brings an event, but never by two threads at a time for one
        operation. A try that causes an event for its own operation is repeated, up to 1,000 times
        in a row. NotCompletedError is raised where a true value is returned and the operation is
        still pending.

        Returns:
            True if this call ended the operation.
        """
        raise NotImplementedError

    def on_complete(self) -> None:
        """Answer the request. Called exactly once when the operation completed or expired."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Act on the timeout. Called once after `on_complete` when the operation expired."""

    def on_cancellation(self) -> None:
        """Act on the cancellation. Called once, in place of `on_complete`: there is no answer.

        Not called where `try_complete_else_watch` raises, because its caller gets the error.
        """

    # -- the operation's end

    @property
    def timeout_ms(self) -> int:
        """The timeout in whole milliseconds, as given or as last renewed."""
        primitives.require_init(self._timer_expiration_ms != 0, self)
        return self._timer_delay_ms

    @property
    def is_completed(self) -> bool:
        """True once the operation has ended in any way."""
        primitives.require_init(self._timer_expiration_ms != 0, self)
        return self._state != states.PENDING

    @property
    def outcome(self) -> Outcome | None:
        """How the operation ended; None while it is pending."""
        primitives.require_init(self._timer_expiration_ms != 0, self)
        return _OUTCOMES[self._state]

    def force_complete(self) -> bool:
        """End the operation as completed and call `on_complete`.

        What `on_complete` raises reaches the caller; the operation has ended all the same.

        Returns:
            True for the one caller that ended the operation.
        """
        primitives.require_init(self._timer_expiration_ms != 0, self)
        borrowed = primitives.borrow_levels()
        ended = False
        try:
            ended = self._end(states.COMPLETED, 0)
            if ended:
                try:
                    primitives.call_on_complete(self)
                finally:
                    self._notify_end()
        finally:
            primitives.return_levels(borrowed)
        return ended

    def cancel(self) -> bool:
        """End the operation without an answer and call `on_cancellation`.

        Returns:
            True for the one caller that ended the operation.
        """
        primitives.require_init(self._timer_expiration_ms != 0, self)
        return self._cancel()

    def _cancel(self) -> bool:
        # Compiled, no override of `cancel` is looked for, which would need memory.
        borrowed = primitives.borrow_levels()
        ended = False
        try:
            ended = self._end(states.CANCELLED, 0)
            if ended:
                try:
                    primitives.call_on_cancellation(self)
                finally:
                    self._notify_end()
        finally:
            primitives.return_levels(borrowed)
        return ended

    def run(self) -> None:
        """Expire; called by the timer. The purgatory logs and counts what the callbacks raise.

        Raises:
            KeyboardInterrupt: Raised by a callback.
            SystemExit: Raised by a callback.
        """
        primitives.require_init(self._timer_expiration_ms != 0, self)
        self._run_from_timer(primitives.LIMIT)

    def _run_from_timer(self, now_ms: int) -> int:
        """As `TimerTask._run_from_timer`; no subclass has a `run` of its own.

        Another thread may have renewed the operation since `now_ms`. Then it is early, and goes
        back, or where its new timeout is 0, runs again at a time of its own.
        """
        purgatory = self._purgatory
        if purgatory is None:
            self._run_out(primitives.LIMIT)  # Alone on a timer, which contains what this raises.
            return primitives.LIMIT
        if now_ms == primitives.LIMIT:
            # Without a clock it is at least as late as the timer has found it.
            now_ms = purgatory._now_or(self._timer_expiration_ms)
        try:
            is_over = self._run_out(now_ms)
            if not is_over:
                if self._state == states.PENDING:
                    purgatory._ran_early(self)
                purgatory._raise_interrupt()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            purgatory._callback_failed(self, error)
            is_over = True
        return purgatory._callbacks_ran(self, now_ms) if is_over else primitives.LIMIT

    def drop(self) -> None:
        """End as cancelled: the timer's executor dropped the expiration that it had accepted.

        An operation that was renewed since stays pending: that expiration was none.
        """
        primitives.require_init(self._timer_expiration_ms != 0, self)
        purgatory = self._purgatory
        if (
            purgatory is not None
            and self._state == states.PENDING
            and purgatory._now_or(primitives.LIMIT) < self._entered_ms + self._timer_delay_ms
        ):
            purgatory._ran_early(self)
        else:
            self.cancel()
        if purgatory is not None:
            purgatory._raise_interrupt()

    def _abandon_in_child(self) -> None:
        """End in a forked child without a callback: the parent answers the request."""
        primitives.require_init(self._timer_expiration_ms != 0, self)
        if self._state == states.PENDING:
            self._state = states.CANCELLED
        self._remove_from_timer()
        hiding.show(self)

    def _run_out(self, now_ms: int) -> bool:
        """End as expired, and call both callbacks even if the first one raises.

        An operation whose deadline is after `now_ms` was renewed and stays pending: the caller puts
        it back into the timer. True for the one caller that ended the operation.
        """
        borrowed = primitives.borrow_levels()
        ended = False
        try:
            ended = self._end(states.EXPIRED, now_ms)
            if ended:
                try:
                    primitives.call_on_complete(self)
                finally:
                    try:
                        primitives.call_on_expiration(self)
                    finally:
                        self._notify_end()
        finally:
            primitives.return_levels(borrowed)
        return ended

    def _has_on_try(self) -> bool:
        return self._purgatory is not None and self._purgatory.on_try is not None

    def _notify_try(self) -> None:
        purgatory = self._purgatory
        if purgatory is not None and purgatory.on_try is not None and self._state == states.PENDING:
            purgatory.on_try(self)

    def _notify_end(self) -> None:
        """Call `on_end`, and raise what was put off on this thread until now.

        A purgatory that has the operation only after this look finds that it is over.
        """
        # No local name in the usual case: compiled, it would count a reference, as in `_end`.
        if (
            self._purgatory is not None
            and self._purgatory._interrupts is None
            and self._purgatory.on_end is None
        ):
            return
        purgatory = self._purgatory
        if purgatory is None:
            primitives.lock_object(self)
            purgatory = self._purgatory
            if purgatory is None:
                self._try_state = states.OVER_BEFORE
            primitives.unlock_object(self)
            if purgatory is None:
                return
        if purgatory._interrupts is None:
            if purgatory.on_end is not None:
                purgatory.on_end(self)
            return
        try:
            if purgatory.on_end is not None:
                purgatory.on_end(self)
        finally:
            purgatory._raise_interrupt()

    def _end(self, state: int, now_ms: int) -> bool:
        """Leave PENDING for `state`, then the timer and the counts; True if this call did.

        The order matters: a callback that learns of the end finds `num_delayed` without this one.
        Of EXPIRED, `now_ms` is compared with the deadline.
        """
        primitives.lock_object(self)
        if self._state != states.PENDING or (
            state == states.EXPIRED and now_ms < self._entered_ms + self._timer_delay_ms
        ):
            primitives.unlock_object(self)
            return False
        self._state = state
        is_counted = self._purgatory is not None and self._entered_ms >= 0
        primitives.unlock_object(self)
        self._remove_from_timer()
        if is_counted:
            self._purgatory._operation_ended(self, state, now_ms)  # type: ignore[union-attr]
        return True

    def _renew(self, now_ms: int, timeout_ms: int) -> bool:
        """Move the deadline; False if the operation has ended."""
        primitives.lock_object(self)
        pending = self._state == states.PENDING
        if pending:
            if self._entered_ms >= 0:  # Else it has not been counted in yet.
                self._entered_ms = now_ms
            self._timer_delay_ms = timeout_ms
        primitives.unlock_object(self)
        return pending

    # -- one try at a time

    def _count_try(self) -> None:
        """Count a try that begins, up to the most that two bytes hold; the caller has the lock."""
        if self._tries < 65_535:  # MAX_TRIES: a constant for the compiler, too
            self._tries += 1

    def _try(self) -> bool:
        """Call `try_complete`, never in two threads at a time.

        A thread that finds a try running does not wait. It leaves a note, and the thread that is
        trying tries again before it leaves. So an event is never lost, and no thread holds a lock,
        or waits for one, while a condition is evaluated. For the same reason a try may cause an
        event for its own operation.
        """
        mark = primitives.thread_tag()
        primitives.lock_object(self)
        if self._state != states.PENDING:
            primitives.unlock_object(self)
            return False
        if self._try_state != states.IDLE:
            if self._trier != mark:
                self._try_state = states.TRY_AGAIN
            elif self._try_state == states.TRYING:
                self._try_state = states.TRY_AGAIN_FOR_ITSELF
            primitives.unlock_object(self)
            return False
        self._try_state = states.TRYING
        self._trier = mark
        self._count_try()
        primitives.unlock_object(self)
        if self._has_on_try():
            return self._try_with_hook()
        # An exception is kept aside, as a handler would cost more than all else here.
        answer = primitives.try_complete(self)
        if answer < 0:
            return self._end_tries(answer, None)
        primitives.lock_object(self)
        alone = self._try_state == states.TRYING
        if alone:
            self._try_state = states.IDLE
        primitives.unlock_object(self)
        if not alone:
            return self._end_tries(answer, None)
        if answer > 0 and self._state == states.PENDING:
            raise NotCompletedError(type(self).__name__)
        return answer > 0 and self._state == states.COMPLETED

    def _try_with_hook(self) -> bool:
        """Call `on_try` and try. What the hook raises is raised after the tries, as for a note."""
        leaving: BaseException | None = None
        try:
            self._notify_try()
        except BaseException as failure:
            leaving = failure
        return self._end_tries(primitives.try_complete(self), leaving)

    def _end_tries(self, answer: int, leaving: BaseException | None) -> bool:
        """Leave the tries, after one that raised or during which a note was left.

        Tries again for a note while the operation is pending. `answer` is what
        `primitives.try_complete` returned for the try before; the result, or what is raised, is
        that of the last one. `leaving` is raised instead once the tries are over.
        """
        self_notifications = 0
        # Python code, where a signal handler may raise, must not end this loop: the operation would
        # never be tried again.
        while True:
            error = primitives.take_error() if answer < 0 else None
            completed = answer > 0 and self._state == states.COMPLETED
            if answer > 0 and self._state == states.PENDING:
                error = _not_completed(self)
            primitives.lock_object(self)
            again = self._try_state != states.TRYING and self._state == states.PENDING
            if again and self._try_state == states.TRY_AGAIN_FOR_ITSELF:
                self_notifications += 1
                again = self_notifications < _MAX_SELF_NOTIFICATIONS
            self._try_state = states.TRYING if again else states.IDLE
            if again:
                self._count_try()
            primitives.unlock_object(self)
            # As `failsafe.ends_program`, which is Python code.
            if error is not None and issubclass(type(error), (KeyboardInterrupt, SystemExit)):
                # The program is to end, but may also go on. So another thread's event is looked at
                # first.
                leaving = error
                error = None
            if not again:
                break
            try:
                self._notify_try()
            except BaseException as failure:
                leaving = failure
            if error is not None:
                # The next try decides the result; this error is logged and not lost.
                purgatory = self._purgatory
                assert purgatory is not None, "only a purgatory tries"
                try:
                    purgatory._callback_failed(self, error)
                except BaseException as interrupt:
                    leaving = interrupt
            answer = primitives.try_complete(self)
        if leaving is not None:
            raise leaving
        if error is not None:
            raise error
        if self_notifications == _MAX_SELF_NOTIFICATIONS and self._state == states.PENDING:
            raise NotificationLoopError(f"{type(self).__name__}.try_complete", self_notifications)
        return completed

    def _attach(self, purgatory: OperationHost) -> bool:
        """Belong to a purgatory, which does not count the end yet; False if it belongs to one."""
        primitives.lock_object(self)
        new = self._purgatory is None
        if new:
            self._entered_ms = -1
            self._purgatory = purgatory
        primitives.unlock_object(self)
        return new

    def _mark_watched(self, now_ms: int) -> int:
        """Have the purgatory count the end from now on; an end that is returned was not counted."""
        primitives.lock_object(self)
        self._entered_ms = now_ms
        state = self._state
        primitives.unlock_object(self)
        return state

    def _hide(self) -> None:
        """Hide from all but full collections what waits; `hiding.pyx` says why."""
        hiding.hide(self)

    def _show(self) -> None:
        hiding.show(self)

    def _lock_fields(self) -> None:
        """Lock the fields of a subclass of this package, for a few loads and stores."""
        primitives.lock_object(self)

    def _unlock_fields(self) -> None:
        primitives.unlock_object(self)

    def _is_in_use(self) -> bool:
        return self._purgatory is not None

    def __repr__(self) -> str:
        if self._timer_expiration_ms == 0:
            return f"<{type(self).__name__} not initialized>"
        return (
            f"<{type(self).__name__} timeout_ms={self._timer_delay_ms} {self.outcome or 'pending'}>"
        )


def _not_completed(operation: DelayedOperation) -> BaseException:
    """Return a NotCompletedError, or what was raised while it was made."""
    made: BaseException
    try:
        made = NotCompletedError(type(operation).__name__)
    except BaseException as error:
        made = error
    return made


if not primitives.COMPILED:
    primitives.wrappers.add(vars(DelayedOperation)["_lock_fields"].__code__)
    primitives.guard_fields(DelayedOperation)
