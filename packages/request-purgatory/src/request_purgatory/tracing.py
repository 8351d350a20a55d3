"""Spans of OpenTelemetry for what waits in a purgatory, by the package `opentelemetry-api`.

Made of the purgatory's hooks: a purgatory without them takes no further step.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Hashable, Sequence
from typing import TypeVar

from opentelemetry.trace import Span, Status, StatusCode, Tracer

from request_purgatory.aio import Purgatory
from request_purgatory.errors import InvalidArgumentError, PurgatoryClosedError
from request_purgatory.purgatory.hold import HoldOperation, operation_name
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory

__all__ = ["trace_purgatory"]

P = TypeVar("P", DelayedOperationPurgatory, Purgatory)

#: The most watch keys in an event.
_MAX_KEYS = 10

_names = reprlib.Repr()
_names.maxother = 100

#: By the ids of operations that have not ended, which have no place of their own for a span.
_spans: dict[int, Span] = {}
#: The operations whose spans are being made, by their ids. Whoever takes one out, once, ends the
#: span: another thread may end the operation meanwhile.
_beginning: dict[int, DelayedOperation] = {}


def trace_purgatory(purgatory: P, tracer: Tracer) -> P:
    """Make a span for each operation that enters a purgatory from now on.

    `trace_purgatory(purgatory, opentelemetry.trace.get_tracer("my-service"))` sets the purgatory's
    `on_watch` and `on_try`, and makes its `on_end` end the span, after calling what it was before.

    A span `purgatory.wait` begins when the operation is handed over, as a child of the current
    span, and ends when the operation has ended and its callbacks have run. Its events are `watch`
    with the keys, `try` for each try of the condition, and `end` with the outcome. What the
    condition of `hold` raises is recorded.

    Args:
        purgatory: One of threads or of asyncio, before it is used.
        tracer: Makes the spans.

    Returns:
        The purgatory.

    Raises:
        InvalidArgumentError: `purgatory` is neither, or `tracer` is no Tracer.
        PurgatoryClosedError: The purgatory is closed.
    """
    if not isinstance(tracer, Tracer):
        raise InvalidArgumentError("tracer", "a Tracer of OpenTelemetry", tracer)
    if not isinstance(purgatory, (Purgatory, DelayedOperationPurgatory)):
        raise InvalidArgumentError("purgatory", "a purgatory", purgatory)
    if purgatory.is_closed:
        raise PurgatoryClosedError(purgatory.name)
    name = purgatory.name

    def begin(operation: DelayedOperation, keys: Sequence[Hashable]) -> None:
        _beginning[id(operation)] = operation
        try:
            make_span(operation, keys)
        finally:
            if _beginning.pop(id(operation), None) is None:
                _end_span(operation)

    def make_span(operation: DelayedOperation, keys: Sequence[Hashable]) -> None:
        span = tracer.start_span(
            "purgatory.wait",
            attributes={
                "purgatory": name,
                "purgatory.operation": operation_name(operation),
                "purgatory.timeout_ms": operation.timeout_ms,
            },
        )
        once = list(dict.fromkeys(keys))[:_MAX_KEYS]
        shown = [key if isinstance(key, str) else _names.repr(key) for key in once]
        span.add_event("watch", {"purgatory.keys": shown})
        _spans[id(operation)] = span

    purgatory._add_hooks(begin, _add_try, _end)
    return purgatory


def _add_try(operation: DelayedOperation) -> None:
    span = _spans.get(id(operation))
    if span is not None:  # Else it entered before the hooks.
        span.add_event("try")


def _end(operation: DelayedOperation) -> None:
    if _beginning.pop(id(operation), None) is None:
        _end_span(operation)


def _end_span(operation: DelayedOperation) -> None:
    span = _spans.pop(id(operation), None)
    if span is None:
        return
    outcome = operation.outcome or ""
    span.set_attribute("purgatory.outcome", outcome)
    span.add_event("end", {"purgatory.outcome": outcome})
    error = operation._error if isinstance(operation, HoldOperation) else None  # noqa: SLF001
    if error is not None:
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
    span.end()


if hasattr(os, "register_at_fork"):  # Windows has no fork.
    # The parent ends its own spans, and a child's operations may have the same ids.
    os.register_at_fork(after_in_child=_spans.clear)
    os.register_at_fork(after_in_child=_beginning.clear)
