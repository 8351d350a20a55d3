"""Spans of OpenTelemetry for what waits in a purgatory, by the package `opentelemetry-api`.

Nothing of the core knows of spans: `trace_purgatory` derives classes from those of the operations
that it hands over, so other operations take the same steps as ever.
"""

from __future__ import annotations

import asyncio
import os
import reprlib
import types
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from opentelemetry.trace import Span, Status, StatusCode, Tracer, use_span

from request_purgatory.aio import Purgatory
from request_purgatory.aio.hold import HoldFuture as LoopFuture
from request_purgatory.errors import InvalidArgumentError, require_type
from request_purgatory.purgatory.core import checked_keys
from request_purgatory.purgatory.hold import HoldFuture, HoldOperation, timeout_to_ms
from request_purgatory.purgatory.operation import DelayedOperation, Outcome
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.purgatory.quorum import FutureLike, QuorumOperation

__all__ = ["trace_purgatory"]

P = TypeVar("P", DelayedOperationPurgatory, Purgatory)
T = TypeVar("T")

#: The most watch keys in an event.
_MAX_KEYS = 10

_names = reprlib.Repr()
_names.maxother = 100

#: By the ids of operations that have not ended, which have no place of their own for a span.
_spans: dict[int, Span] = {}


def trace_purgatory(purgatory: P, tracer: Tracer) -> P:
    """Return a purgatory's double, which makes a span for each operation that enters through it.

    The double has all methods of the purgatory and holds nothing itself:
    `orders = trace_purgatory(purgatory, opentelemetry.trace.get_tracer("my-service"))`. What enters
    through the purgatory itself has no span, and costs what it costs without this module.

    A span `purgatory.wait` begins when the operation is handed over, as a child of the current
    span, and ends when the operation has ended and its callbacks have run. Its events are `watch`
    with the keys, `try` for each call of the condition, and `end` with the outcome. Callbacks run
    with the span as the current one, on whichever thread. What they or the condition raise is
    recorded.

    The operation's class is replaced by a subclass of the same name, without fields of its own. So
    a class with an `__init_subclass__` sees one more subclass.

    Args:
        purgatory: One of threads or of asyncio; `with` and `async with` take the double, too.
        tracer: Makes the spans.

    Raises:
        InvalidArgumentError: `purgatory` is neither, or `tracer` is no Tracer.
    """
    if not isinstance(tracer, Tracer):
        raise InvalidArgumentError("tracer", "a Tracer of OpenTelemetry", tracer)
    if not isinstance(purgatory, (Purgatory, DelayedOperationPurgatory, _TracedPurgatory)):
        raise InvalidArgumentError("purgatory", "a purgatory", purgatory)
    double: object
    if isinstance(purgatory, Purgatory):
        double = _TracedLoopPurgatory(
            purgatory, tracer, lambda: LoopFuture(loop=asyncio.get_running_loop())
        )
    else:
        double = _TracedThreadPurgatory(purgatory, tracer, HoldFuture)
    return cast("P", double)


if TYPE_CHECKING:
    _Operation = DelayedOperation
else:
    # What it is mixed into has the fields of an operation.
    _Operation = object


class _Traced(_Operation):
    """A mix-in for operations: adds events to the operation's span, and ends it."""

    __slots__ = ()

    def try_complete(self) -> bool:
        span = _spans.get(id(self))
        if span is not None:  # Else it has ended meanwhile.
            span.add_event("try")
        try:
            return super().try_complete()
        except BaseException as error:
            if span is not None:
                span.record_exception(error)
            raise

    def on_complete(self) -> None:
        # `on_expiration` follows on an expiration.
        with _inside_span(self, is_last=self.outcome != "expired"):
            super().on_complete()

    def on_expiration(self) -> None:
        with _inside_span(self, is_first=False):
            super().on_expiration()

    def on_cancellation(self) -> None:
        with _inside_span(self):
            super().on_cancellation()

    def _abandon_in_child(self) -> None:
        super()._abandon_in_child()
        span = _spans.pop(id(self), None)
        # Called in a forked child, too. There the span is a copy, which the parent ends.
        if span is not None and os.getpid() == _pid:
            _add_end(self, span)
            span.end()


@contextmanager
def _inside_span(
    operation: DelayedOperation, *, is_first: bool = True, is_last: bool = True
) -> Iterator[None]:
    """Run a callback of an operation that has ended inside of its span.

    Args:
        operation: The operation.
        is_first: Add the event `end` before the callback.
        is_last: End the span after the callback.
    """
    span = _spans.pop(id(operation), None) if is_last else _spans.get(id(operation))
    if span is None:
        yield
        return
    if is_first:
        _add_end(operation, span)
    try:
        with use_span(span):
            yield
    finally:
        if is_last:
            span.end()


def _add_end(operation: DelayedOperation, span: Span) -> None:
    outcome = operation.outcome or "cancelled"
    span.set_attribute("purgatory.outcome", outcome)
    span.add_event("end", {"purgatory.outcome": outcome})
    if isinstance(operation, HoldOperation):
        error = operation._error  # noqa: SLF001 - what the condition raised, which the future has
        if error is not None:
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))


_classes: dict[type[DelayedOperation], type[DelayedOperation]] = {}


def _traced_class(kind: type[DelayedOperation]) -> type[DelayedOperation]:
    """Return the traced subclass of a class of operations, the same one at each call."""
    if issubclass(kind, _Traced):
        return kind
    traced = _classes.get(kind)
    if traced is None:
        names = {"__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
        made = types.new_class(kind.__name__, (_Traced, kind), {}, lambda body: body.update(names))
        traced = _classes.setdefault(kind, made)
    return traced


class _TracedPurgatory:
    """What both doubles have: the entries with spans; everything else is the purgatory's own."""

    def __init__(self, purgatory: Any, tracer: Tracer, new_future: Callable[[], Any]) -> None:
        self._purgatory = purgatory
        self._tracer = tracer
        self._new_future = new_future

    def __getattr__(self, name: str) -> Any:
        return getattr(self._purgatory, name)

    def __repr__(self) -> str:
        return f"<traced {self._purgatory!r}>"

    def hold(
        self,
        keys: Iterable[Hashable],
        *,
        until: Callable[[], object],
        timeout: float | timedelta | None = None,
        not_yet: object = ...,
    ) -> Any:
        """Return a future of a condition's answer, as the purgatory's `hold`."""
        keys = list(dict.fromkeys(checked_keys("keys", keys)))
        future = self._new_future()
        make = cast("type[HoldOperation]", _traced_class(HoldOperation))
        operation = make(until, timeout_to_ms(timeout), future, not_yet)
        self.try_complete_else_watch(operation, keys)
        return future

    def gather(
        self,
        futures: Iterable[FutureLike],
        *,
        quorum: int | None = None,
        timeout: float | timedelta | None = None,
    ) -> Any:
        """Return a future of a quorum, as the purgatory's `gather`."""
        future = self._new_future()
        make = cast("type[QuorumOperation]", _traced_class(QuorumOperation))
        operation = make(tuple(futures), quorum, timeout_to_ms(timeout), future)
        operation.watch_in(cast("Any", self))
        return future

    def try_complete_else_watch(
        self, operation: DelayedOperation, watch_keys: Iterable[Hashable]
    ) -> bool:
        """Return True if the first try completed the operation, as the purgatory's method."""
        completed: bool = self._enter(
            self._purgatory.try_complete_else_watch, operation, watch_keys
        )
        return completed

    def _enter(
        self,
        enter: Callable[[DelayedOperation, Any], T],
        operation: DelayedOperation,
        keys: Iterable[Hashable],
    ) -> T:
        """Begin an operation's span and hand the operation over.

        Returns:
            What `enter` returns of the operation.
        """
        require_type("operation", operation, DelayedOperation)
        if operation.is_completed or operation._purgatory is not None:
            return enter(operation, keys)  # Refused, or ended before: nothing waits.
        keys = checked_keys("keys", keys)
        kind = type(operation)
        traced = _traced_class(kind)
        if traced is not kind:
            operation.__class__ = traced
        span = self._tracer.start_span(
            "purgatory.wait",
            attributes={
                "purgatory": self._purgatory.name,
                "purgatory.operation": _name(operation),
                "purgatory.timeout_ms": operation.timeout_ms,
            },
        )
        shown = [key if isinstance(key, str) else _names.repr(key) for key in keys[:_MAX_KEYS]]
        span.add_event("watch", {"purgatory.keys": shown})
        _spans[id(operation)] = span
        try:
            return enter(operation, keys)
        except BaseException as error:
            # Cancelled without a callback, unless a callback raised this and has ended the span.
            if _spans.pop(id(operation), None) is not None:
                span.record_exception(error)
                span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
                span.end()
            raise


class _TracedThreadPurgatory(_TracedPurgatory):
    """The double of a purgatory of threads."""

    def __enter__(self) -> _TracedThreadPurgatory:
        self._purgatory.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._purgatory.__exit__(kind, error, traceback)


class _TracedLoopPurgatory(_TracedPurgatory):
    """The double of an event loop's purgatory."""

    def wait(
        self, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> asyncio.Future[Outcome]:
        """Return a future of an operation's outcome, as the purgatory's `wait`."""
        future: asyncio.Future[Outcome] = self._enter(self._purgatory.wait, operation, keys)
        return future

    async def __aenter__(self) -> _TracedLoopPurgatory:
        await self._purgatory.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._purgatory.__aexit__(kind, error, traceback)


def _name(operation: DelayedOperation) -> str:
    """Return the type of an operation as snapshots have it."""
    if isinstance(operation, HoldOperation):
        return f"hold({operation.condition_name})"
    return type(operation).__qualname__


_pid = os.getpid()


def _begin_in_child() -> None:
    """Forget the parent's spans, in a forked child, where its operations have been abandoned."""
    global _pid
    _pid = os.getpid()
    _spans.clear()


if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(after_in_child=_begin_in_child)
