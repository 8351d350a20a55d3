"""Watch-and-complete cycles of several threads that share a purgatory.

The operations are divided among the threads. As in purgatory_cycle, each thread makes a request,
watches it, sets its flag and checks its key, and calls `advance_clock(0)` after every 1,000
requests. With one key all threads use one watcher list, and a thread may complete the request of
another one. With 65,536 keys each thread starts at another key. `shards` is the number of locks
over which the keys are spread.

The metric is the number of all operations over the time from the common start to the end of the
last thread. With a global interpreter lock the rate cannot grow with the threads; it shows the cost
of their contention. Kafka always has 512 shards, and the 0.8 design has one.
"""

from __future__ import annotations

import threading
from itertools import cycle, islice
from time import perf_counter_ns

from benchmarks import peers
from benchmarks.question import Case, JvmCall
from benchmarks.request import ADVANCE_EVERY, TIMEOUT_MS, Request, open_purgatory, watch_keys
from benchmarks.stopwatch import ns_after_gc
from request_purgatory import DelayedOperationPurgatory

QUESTION = "contention"
METRICS = {"operations_per_second": "1/s"}
SIDES = (peers.OURS, peers.LEGACY, peers.KAFKA)

_OPERATIONS = 200_000
_QUICK_OPERATIONS = 40_000
_JVM_OPERATIONS = 1_000_000
_KAFKA_SHARDS = 512
_LEGACY_SHARDS = 1


def cases(quick: bool) -> list[Case]:
    """Return cases with every number of threads, with few and many keys and shards."""
    operations = _QUICK_OPERATIONS if quick else _OPERATIONS
    return [
        Case(
            {"threads": threads, "keys": keys, "shards": shards, "operations": operations},
            threads,
            JvmCall(QUESTION, {"threads": threads, "keys": keys, "operations": _JVM_OPERATIONS}),
        )
        for keys in (1, 65_536)
        for shards in ((1, 512) if quick else (1, 16, 512))
        for threads in ((1, 4) if quick else (1, 2, 4, 8))
    ]


def skip_reason(side: str, case: Case) -> str | None:
    """Return a reason for sides that have a fixed number of shards other than the case's."""
    if side == peers.KAFKA and case.params["shards"] != _KAFKA_SHARDS:
        return f"always has {_KAFKA_SHARDS} shards"
    if side == peers.LEGACY and case.params["shards"] != _LEGACY_SHARDS:
        return "has one lock for all lists"
    return None


def measure(side: str, threads: int, keys: int, shards: int, operations: int) -> dict[str, float]:
    """Measure operations_per_second.

    Raises:
        RuntimeError: A request was left pending.
    """
    purgatory = open_purgatory(side, shards=shards)
    share = operations // threads
    ring = watch_keys(keys)
    starts = [keys * number // threads for number in range(threads)]
    turns = [list(islice(cycle(ring[start:] + ring[:start]), share)) for start in starts]
    # The main thread also waits at the barrier and starts the clock.
    barrier = threading.Barrier(threads + 1)
    workers = [
        threading.Thread(target=_work, args=(purgatory, keys_in_turn, barrier))
        for keys_in_turn in turns
    ]
    for worker in workers:
        worker.start()
    ns_after_gc()
    barrier.wait()
    start_ns = perf_counter_ns()
    for worker in workers:
        worker.join()
    elapsed_ns = perf_counter_ns() - start_ns
    counted = purgatory.metrics()
    if counted.completions != share * threads or counted.num_delayed_operations:
        raise RuntimeError(f"not every request was completed: {counted}")
    return {"operations_per_second": counted.completions * 1e9 / elapsed_ns}


def _work(
    purgatory: DelayedOperationPurgatory, turns: list[str], barrier: threading.Barrier
) -> None:
    watch = purgatory.try_complete_else_watch
    check = purgatory.check_and_complete
    rounds = [turns[start : start + ADVANCE_EVERY] for start in range(0, len(turns), ADVANCE_EVERY)]
    barrier.wait()
    for keys in rounds:
        for key in keys:
            request = Request(TIMEOUT_MS)
            request.ready = False
            watch(request, [key])
            request.ready = True
            check(key)
        purgatory.advance_clock(0)
