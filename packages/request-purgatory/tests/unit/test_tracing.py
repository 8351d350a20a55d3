"""Spans of OpenTelemetry for what waits."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the package opentelemetry-sdk is not installed")

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, Tracer, get_current_span

from request_purgatory import DelayedOperation, DelayedOperationPurgatory, ManualClock, tracing
from request_purgatory.aio import Purgatory
from request_purgatory.errors import InvalidArgumentError, PurgatoryClosedError, TaskInUseError
from request_purgatory.testing import run
from request_purgatory.tracing import trace_purgatory
from tests.conftest import MakePurgatory
from tests.support.children import in_child
from tests.support.invariants import check_invariants
from tests.support.requests import Fault, Request, fail

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    """Return a tracer whose spans `ended` returns."""
    exporter.clear()
    yield provider.get_tracer("test")
    exporter.clear()


@pytest.fixture
def purgatory(make_wheel_purgatory: MakePurgatory) -> DelayedOperationPurgatory:
    """Return a purgatory without a reaper, on the test's clock."""
    return make_wheel_purgatory()


def ended() -> list[ReadableSpan]:
    """Return the spans that have ended, the earliest first."""
    return list(exporter.get_finished_spans())


def events(span: ReadableSpan) -> list[str]:
    """Return the names of a span's events."""
    return [event.name for event in span.events]


class Plain(DelayedOperation):
    """An operation with a `__dict__`, which notes the span that its callbacks run in."""

    ready = False

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.seen = get_current_span()


class Lean(DelayedOperation):
    """An operation without a `__dict__`."""

    __slots__ = ("ready", "seen")

    def __init__(self) -> None:
        super().__init__(1000)
        self.ready = False

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.seen = get_current_span()


def test_hold_has_a_span_with_its_watch_tries_and_end(
    purgatory: DelayedOperationPurgatory, tracer: Tracer
) -> None:
    answers: list[str] = []

    def answered() -> list[str]:
        return answers

    traced = trace_purgatory(purgatory, tracer)
    with tracer.start_as_current_span("request") as request:
        held = traced.hold(["orders-0", 7], until=answered, timeout=5)
    purgatory.notify("orders-0")
    assert purgatory.snapshot().by_type[0].name.startswith("hold(")
    answers.append("ack")
    traced.notify(7)
    assert held.result(0) == ["ack"]
    parent, span = ended()
    assert parent.name == "request"
    assert span.name == "purgatory.wait"
    assert span.parent == request.get_span_context()
    assert events(span) == ["watch", "try", "try", "try", "end"]
    assert dict(span.events[0].attributes or {}) == {"purgatory.keys": ("orders-0", "7")}
    name = test_hold_has_a_span_with_its_watch_tries_and_end.__name__
    assert dict(span.attributes or {}) == {
        "purgatory": "test",
        "purgatory.operation": f"hold({name}.<locals>.answered)",
        "purgatory.timeout_ms": 5000,
        "purgatory.outcome": "completed",
    }
    assert span.status.status_code is StatusCode.UNSET


def test_expired_hold_ends_its_span(
    purgatory: DelayedOperationPurgatory, clock: ManualClock, tracer: Tracer
) -> None:
    held: Future[bool] = trace_purgatory(purgatory, tracer).hold(
        ["a"], until=lambda: False, timeout=0.01
    )
    assert ended() == []
    clock.advance(10)
    purgatory.advance_clock(0)
    assert isinstance(held.exception(0), TimeoutError)
    (span,) = ended()
    assert events(span) == ["watch", "try", "end"]
    assert (span.attributes or {})["purgatory.outcome"] == "expired"
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("how", ["future", "key", "close"])
def test_cancelled_hold_ends_its_span(
    purgatory: DelayedOperationPurgatory, tracer: Tracer, how: str
) -> None:
    held: Future[bool] = trace_purgatory(purgatory, tracer).hold(["a"], until=lambda: False)
    if how == "future":
        held.cancel()
    elif how == "key":
        purgatory.cancel_for_key("a")
    else:
        purgatory.close()
    (span,) = ended()
    assert events(span) == ["watch", "try", "end"]
    assert (span.attributes or {})["purgatory.outcome"] == "cancelled"


def test_condition_that_raises_is_recorded(
    purgatory: DelayedOperationPurgatory, tracer: Tracer
) -> None:
    held: Future[bool] = trace_purgatory(purgatory, tracer).hold(["a"], until=fail)
    assert isinstance(held.exception(0), Fault)
    (span,) = ended()
    assert events(span) == ["watch", "try", "end", "exception"]
    assert span.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("make", [lambda: Plain(1000), Lean], ids=["plain", "lean"])
def test_operation_of_any_class_has_a_span(
    purgatory: DelayedOperationPurgatory, tracer: Tracer, make: Callable[[], Plain | Lean]
) -> None:
    operation = make()
    kind = type(operation)
    trace_purgatory(purgatory, tracer)
    assert purgatory.try_complete_else_watch(operation, ["a", 7, "a"]) is False
    assert type(operation) is kind
    operation.ready = True
    assert purgatory.check_and_complete("a") == 1
    (span,) = ended()
    assert events(span) == ["watch", "try", "try", "end"]
    assert dict(span.events[0].attributes or {}) == {"purgatory.keys": ("a", "7")}
    assert (span.attributes or {})["purgatory.operation"] == kind.__qualname__
    check_invariants(purgatory)


def test_span_ends_after_callbacks_that_raise(
    purgatory: DelayedOperationPurgatory, clock: ManualClock, tracer: Tracer
) -> None:
    request = Request(10, complete=fail, expiration=fail)
    trace_purgatory(purgatory, tracer).try_complete_else_watch(request, ["a"])
    clock.advance(10)
    purgatory.advance_clock(0)
    assert purgatory.metrics().callback_errors == 1
    (span,) = ended()
    assert events(span) == ["watch", "try", "end"]
    assert (span.attributes or {})["purgatory.outcome"] == "expired"


def test_wait_goes_on_after_a_try_that_raises(
    purgatory: DelayedOperationPurgatory, tracer: Tracer
) -> None:
    class Odd(Plain):
        tries = 0

        def try_complete(self) -> bool:
            self.tries += 1
            if self.tries == 2:
                raise Fault
            return super().try_complete()

    odd = Odd(1000)
    trace_purgatory(purgatory, tracer).try_complete_else_watch(odd, ["a"])
    purgatory.notify("a")
    odd.ready = True
    purgatory.notify("a")
    (span,) = ended()
    assert events(span) == ["watch", "try", "try", "try", "end"]


@pytest.mark.parametrize("during", [{"try": fail}, {"complete": fail}], ids=["try", "complete"])
def test_request_whose_first_try_raises_ends_its_span(
    purgatory: DelayedOperationPurgatory, tracer: Tracer, during: dict[str, Callable[[], None]]
) -> None:
    trace_purgatory(purgatory, tracer)
    with pytest.raises(Fault):
        purgatory.try_complete_else_watch(Request(ready="try" not in during, **during), ["a"])
    (span,) = ended()
    assert events(span) == ["watch", "try", "end"]


def test_request_of_a_closed_purgatory_has_no_span(
    purgatory: DelayedOperationPurgatory, tracer: Tracer
) -> None:
    trace_purgatory(purgatory, tracer)
    purgatory.close()
    with pytest.raises(PurgatoryClosedError):
        purgatory.hold(["a"], until=lambda: False)
    assert ended() == []


def test_misuse_is_refused_as_by_the_purgatory(
    purgatory: DelayedOperationPurgatory, tracer: Tracer
) -> None:
    traced = trace_purgatory(purgatory, tracer)
    request = Request()
    traced.try_complete_else_watch(request, ["a"])
    with pytest.raises(TaskInUseError):
        traced.try_complete_else_watch(request, ["a"])
    with pytest.raises(InvalidArgumentError, match="not one string"):
        traced.hold("orders", until=lambda: True)
    assert ended() == []
    request.cancel()
    assert len(ended()) == 1


def test_quorum_has_a_span(purgatory: DelayedOperationPurgatory, tracer: Tracer) -> None:
    futures: list[Future[int]] = [Future(), Future()]
    gathered = trace_purgatory(purgatory, tracer).gather(futures)
    for future in futures:
        future.set_result(1)
    assert len(gathered.result(0).succeeded) == 2
    (span,) = ended()
    assert events(span) == ["watch", "try", "try", "try", "end"]


def test_methods_of_an_ended_operation_can_be_called(
    purgatory: DelayedOperationPurgatory, tracer: Tracer
) -> None:
    class Once(Plain):
        def try_complete(self) -> bool:
            if self.is_completed:
                raise Fault
            return self.force_complete()

    once = Once(1000)
    trace_purgatory(purgatory, tracer).try_complete_else_watch(once, ["a"])
    once.on_complete()
    with pytest.raises(Fault):
        once.try_complete()
    (span,) = ended()
    assert events(span) == ["watch", "try", "end"]


def test_what_entered_before_has_no_span(
    purgatory: DelayedOperationPurgatory, tracer: Tracer
) -> None:
    before, after = Plain(1000), Plain(1000)
    purgatory.try_complete_else_watch(before, ["a"])
    assert trace_purgatory(purgatory, tracer) is purgatory
    purgatory.try_complete_else_watch(after, ["a"])
    purgatory.notify("a")
    before.force_complete()
    assert ended() == []
    after.force_complete()
    assert len(ended()) == 1


def test_hook_of_the_program_is_called_before_the_span_ends(tracer: Tracer) -> None:
    seen: list[int] = []
    purgatory = DelayedOperationPurgatory(reaper=False, on_end=lambda _: seen.append(len(ended())))
    with trace_purgatory(purgatory, tracer):
        purgatory.hold(["a"], until=lambda: True)
    assert (seen, len(ended())) == ([0], 1)


def test_purgatory_that_is_freed_ends_its_spans(tracer: Tracer) -> None:
    purgatory = DelayedOperationPurgatory("freed", reaper=False)
    trace_purgatory(purgatory, tracer).try_complete_else_watch(Plain(1000), ["a"])
    del purgatory
    gc.collect()
    (span,) = ended()
    assert (span.attributes or {})["purgatory.outcome"] == "cancelled"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_ends_no_span_of_its_parent(
    purgatory: DelayedOperationPurgatory, tracer: Tracer
) -> None:
    traced = trace_purgatory(purgatory, tracer)
    traced.try_complete_else_watch(Plain(1000), ["a"])

    def child() -> None:
        assert ended() == []
        traced.try_complete_else_watch(Request(ready=True), ["a"])
        assert len(ended()) == 1

    in_child(child)
    assert ended() == []


def test_requests_of_an_event_loop_have_spans(tracer: Tracer) -> None:
    async def request(traced: Purgatory, number: int) -> int:
        with tracer.start_as_current_span(f"request {number}"):
            return await traced.hold([number], until=lambda: number, timeout=1)

    async def main() -> None:
        acks: list[int] = []
        loop = asyncio.get_running_loop()
        async with trace_purgatory(Purgatory("loop"), tracer) as traced:
            assert await asyncio.gather(*(request(traced, number) for number in (1, 2))) == [1, 2]
            loop.call_later(0.4, acks.append, 1)
            loop.call_later(0.5, traced.notify, "a")
            assert await traced.hold(["a"], until=lambda: acks, timeout=1) == [1]
            with pytest.raises(TimeoutError):
                await traced.hold(["a"], until=lambda: False, timeout=0.01)
            waited = traced.wait(Plain(20), ["a"])
            assert await waited == "expired"
            futures = [loop.create_future(), loop.create_future()]
            loop.call_later(0.1, futures[0].set_result, 1)
            assert len((await traced.gather(futures, quorum=1)).succeeded) == 1
            cancelled: asyncio.Future[bool] = traced.hold(["a"], until=lambda: False)
            cancelled.cancel()

    run(main())
    spans = [span for span in ended() if span.name == "purgatory.wait"]
    outcomes = [(span.attributes or {})["purgatory.outcome"] for span in spans]
    assert outcomes == [*["completed"] * 3, "expired", "expired", "completed", "cancelled"]
    assert [events(span) for span in spans] == [
        ["watch", "try", "end"],
        ["watch", "try", "end"],
        ["watch", "try", "try", "end"],
        ["watch", "try", "end"],
        ["watch", "try", "end"],
        ["watch", "try", "try", "end"],
        ["watch", "try", "end"],
    ]
    requests = {span.context.span_id for span in ended() if span.name.startswith("request")}
    assert {span.parent.span_id for span in spans[:2] if span.parent} == requests


class EndsMeanwhile(SpanProcessor):
    """Ends operations while their spans are being made, as another thread may."""

    def __init__(self) -> None:
        self.operations: list[DelayedOperation] = []

    def on_start(self, span: ReadableSpan, parent_context: object = None) -> None:
        for operation in self.operations:
            operation.force_complete()


def test_operation_that_ends_while_its_span_begins_has_a_span_that_ends(
    purgatory: DelayedOperationPurgatory,
) -> None:
    spans = InMemorySpanExporter()
    meanwhile = EndsMeanwhile()
    local = TracerProvider()
    local.add_span_processor(SimpleSpanProcessor(spans))
    local.add_span_processor(meanwhile)
    trace_purgatory(purgatory, local.get_tracer("test"))
    request = Request(60_000)
    meanwhile.operations.append(request)
    purgatory.try_complete_else_watch(request, ["a"])
    (span,) = spans.get_finished_spans()
    assert span.attributes is not None
    assert span.attributes["purgatory.outcome"] == "completed"
    assert (tracing._spans, tracing._beginning) == ({}, {})


def test_tracer_that_raises_leaves_nothing_behind(
    purgatory: DelayedOperationPurgatory, monkeypatch: pytest.MonkeyPatch, tracer: Tracer
) -> None:
    trace_purgatory(purgatory, tracer)
    monkeypatch.setattr(tracer, "start_span", lambda *_args, **_options: fail())
    with pytest.raises(Fault):
        purgatory.try_complete_else_watch(Request(60_000), ["a"])
    assert (tracing._spans, tracing._beginning) == ({}, {})
    assert purgatory.num_delayed == 0
