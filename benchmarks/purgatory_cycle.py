"""A request's way through the purgatory: made, watched, completed by an event on its key.

There is one thread and no reaper. One operation is: make a request with a timeout of 60 s, pass it
to `try_complete_else_watch` under one key, set its flag, call `check_and_complete` for the key.
With `watchers` above 1, that many requests watch the key, all flags are set, and one check
completes all of them; the time is per request. Several `keys` are used in turn.

The request is a Python subclass with `__slots__`, a Python `try_complete` (called once while the
flag is false, once when it is true) and a Python `on_complete`. `advance_clock(0)` after every
1,000 requests lets the purgatory purge, and is included in the time. Kafka's reaper runs in a
thread of its own.
"""

from __future__ import annotations

from itertools import cycle, islice
from time import perf_counter_ns

from benchmarks import peers
from benchmarks.question import Case, JvmCall
from benchmarks.request import ADVANCE_EVERY, TIMEOUT_MS, Request, open_purgatory, watch_keys
from benchmarks.stopwatch import ns_after_gc, per_operation
from request_purgatory import DelayedOperationPurgatory

QUESTION = "purgatory_cycle"
METRICS = {"ns_per_operation": "ns", "cpu_ns_per_operation": "ns"}
SIDES = (peers.OURS, peers.LEGACY, peers.KAFKA)

_BATCHES = 5
_JVM_OPERATIONS = 1_000_000


def cases(quick: bool) -> list[Case]:
    """Return cases with few and many keys with one watcher each, and one key with many watchers."""
    points = (
        ((1, 1), (1_000, 1), (1, 100))
        if quick
        else ((1, 1), (1_000, 1), (65_536, 1), (1, 10), (1, 100), (1, 1_000))
    )
    return [
        Case(
            {"keys": keys, "watchers": watchers},
            keys if watchers == 1 else watchers,
            JvmCall(QUESTION, {"keys": keys, "watchers": watchers, "operations": _JVM_OPERATIONS}),
        )
        for keys, watchers in points
    ]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """Return None: every side runs every case."""
    return None


def measure(side: str, keys: int, watchers: int, operations: int = 64_000) -> dict[str, float]:
    """Measure ns_per_operation in batches of `operations`, a multiple of 1,000.

    Raises:
        RuntimeError: A request was left pending.
    """
    purgatory = open_purgatory(side)
    turns = list(islice(cycle(watch_keys(keys)), operations // watchers))
    step = ADVANCE_EVERY // watchers
    rounds = [turns[start : start + step] for start in range(0, len(turns), step)]
    ns_after_gc()
    if watchers == 1:
        elapsed_ns = [_one_watcher(purgatory, rounds) for _ in range(_BATCHES)]
    else:
        elapsed_ns = [_many_watchers(purgatory, rounds, watchers) for _ in range(_BATCHES)]
    counted = purgatory.metrics()
    if counted.completions != _BATCHES * operations or counted.num_delayed_operations:
        raise RuntimeError(f"not every request was completed: {counted}")
    return per_operation(elapsed_ns, operations)


def _one_watcher(purgatory: DelayedOperationPurgatory, rounds: list[list[str]]) -> int:
    watch = purgatory.try_complete_else_watch
    check = purgatory.check_and_complete
    start_ns = perf_counter_ns()
    for turns in rounds:
        for key in turns:
            request = Request(TIMEOUT_MS)
            request.ready = False
            watch(request, [key])
            request.ready = True
            check(key)
        purgatory.advance_clock(0)
    return perf_counter_ns() - start_ns


def _many_watchers(
    purgatory: DelayedOperationPurgatory, rounds: list[list[str]], watchers: int
) -> int:
    watch = purgatory.try_complete_else_watch
    check = purgatory.check_and_complete
    requests = [Request(TIMEOUT_MS)] * watchers
    start_ns = perf_counter_ns()
    for turns in rounds:
        for key in turns:
            for index in range(watchers):
                requests[index] = request = Request(TIMEOUT_MS)
                request.ready = False
                watch(request, [key])
            for request in requests:
                request.ready = True
            check(key)
        purgatory.advance_clock(0)
    return perf_counter_ns() - start_ns
