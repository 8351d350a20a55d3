"""Requests as futures on threads: `hold`, and what a program has without it.

In the case `turns` one request at a time is held under a key, completed by `notify`, and its result
read (`ns_per_operation`). The peers are a bare `concurrent.futures.Future`, which waits for nothing
and has no timeout, and a `threading.Event` that is set and waited for. `bytes_per_waiter` and
`tracked_per_waiter` are what each of 10,000 requests that wait adds to the memory that Python
allocates, and to the objects that the cyclic collector tracks.

In the case `loaded` the requests have a timeout of 200 ms, and none is answered: `ns_per_operation`
is the time until the last one has ended over their number. The peers have nothing that ends them.
"""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from time import perf_counter_ns

from benchmarks import peers
from benchmarks.question import Case, NotApplicableError
from benchmarks.stopwatch import ns_after_gc, per_operation, repeats
from request_purgatory import DelayedOperationPurgatory

QUESTION = "hold"
METRICS = {
    "ns_per_operation": "ns",
    "bytes_per_waiter": "bytes",
    "tracked_per_waiter": "objects",
}
SIDES = (peers.OURS, peers.FUTURE, peers.EVENT)

_TIMEOUT_S = 60.0
_LOADED_TIMEOUT_S = 0.2
_WAITING = 10_000


def cases(quick: bool) -> list[Case]:
    """Return one case for requests in turn, and one for many that time out."""
    turns, loaded = (2_000, 20_000) if quick else (100_000, 500_000)
    return [
        Case({"what": "turns", "count": turns}, turns),
        Case({"what": "loaded", "count": loaded}, loaded),
    ]


def skip_reason(side: str, case: Case) -> str | None:
    """Return the reason of the peers in the case `loaded`."""
    if case.params["what"] == "loaded" and side != peers.OURS:
        return "has no timeout that ends it without a thread that waits"
    return None


def measure(side: str, what: str, count: int) -> dict[str, float]:
    """Measure the metrics of the case.

    Raises:
        RuntimeError: A request did not end as it should.
    """
    if what == "loaded":
        return {"ns_per_operation": _loaded_ns(count) / count}
    if side == peers.OURS:
        with DelayedOperationPurgatory("benchmark") as purgatory:
            hold = partial(purgatory.hold, ["orders-0"], until=_never, timeout=_TIMEOUT_S)
            return _turns(count, hold, lambda: _hold_turns(purgatory, count))
    if side == peers.FUTURE:
        return _turns(count, Future, lambda: _future_turns(count))
    if side == peers.EVENT:
        return _turns(count, threading.Event, lambda: _event_turns(count))
    raise NotApplicableError(f"{side} has no requests as futures")


def _turns(count: int, wait: Callable[[], object], turns: Callable[[], object]) -> dict[str, float]:
    elapsed_ns = []
    for _ in range(repeats(count)):
        start_ns = ns_after_gc()
        turns()
        elapsed_ns.append(perf_counter_ns() - start_ns)
    return per_operation(elapsed_ns, count) | _per_waiter(wait)


def _per_waiter(wait: Callable[[], object]) -> dict[str, float]:
    waiting: list[object] = [None] * _WAITING
    gc.collect()
    tracked = len(gc.get_objects())
    tracemalloc.start()
    for number in range(_WAITING):
        waiting[number] = wait()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    tracked = len(gc.get_objects()) - tracked
    return {"bytes_per_waiter": size / _WAITING, "tracked_per_waiter": tracked / _WAITING}


def _never() -> bool:
    return False


def _hold_turns(purgatory: DelayedOperationPurgatory, count: int) -> None:
    ready = [False]
    until = partial(ready.__getitem__, 0)
    keys = ["orders-0"]
    for _ in range(count):
        ready[0] = False
        held = purgatory.hold(keys, until=until, timeout=_TIMEOUT_S)
        ready[0] = True
        purgatory.notify("orders-0")
        if held.result() is not True:
            raise RuntimeError("a request was not completed")


def _future_turns(count: int) -> None:
    for _ in range(count):
        future: Future[bool] = Future()
        future.set_result(True)
        future.result()


def _event_turns(count: int) -> None:
    for _ in range(count):
        event = threading.Event()
        event.set()
        event.wait(_TIMEOUT_S)


def _loaded_ns(count: int) -> int:
    with DelayedOperationPurgatory("benchmark") as purgatory:
        start_ns = ns_after_gc()
        held = [
            purgatory.hold([number], until=_never, timeout=_LOADED_TIMEOUT_S)
            for number in range(count)
        ]
        for future in held:
            if type(future.exception()) is not TimeoutError:
                raise RuntimeError("a request did not expire")
        return perf_counter_ns() - start_ns
