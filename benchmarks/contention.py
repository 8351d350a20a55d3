"""Watch-and-complete cycles of several threads that share a purgatory.

The threads share the operations out among them; each goes through its own: make a request, watch
it, set its flag, check its key, as in purgatory_cycle, and calls `advance_clock(0)` after every
1,000. With one key all meet in one watcher list, where a thread may complete another's request;
with 65,536 each begins at another place of the ring. `shards` is the number of locks that the keys
are spread over. What is reported is all operations over the time from the common start to the last
thread's end. Under a global interpreter lock this can't grow with the threads: it shows what their
contention costs. Kafka always has 512 shards, and the 0.8 design has one.
"""

from __future__ import annotations

import threading
from itertools import cycle, islice
from time import perf_counter_ns

from benchmarks import peers
from benchmarks.question import Case, JvmCall
from benchmarks.request import ADVANCE_EVERY, TIMEOUT_MS, Request, keys_of, open_purgatory
from benchmarks.stopwatch import settled_ns
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
    """Every number of threads with few and many keys and shards."""
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


def left_out(side: str, case: Case) -> str | None:
    """The sides with a fixed number of shards, at another."""
    if side == peers.KAFKA and case.params["shards"] != _KAFKA_SHARDS:
        return f"always has {_KAFKA_SHARDS} shards"
    if side == peers.LEGACY and case.params["shards"] != _LEGACY_SHARDS:
        return "has one lock for all lists"
    return None


def measure(side: str, threads: int, keys: int, shards: int, operations: int) -> dict[str, float]:
    """operations_per_second; RuntimeError if a request was left pending."""
    purgatory = open_purgatory(side, shards=shards)
    share = operations // threads
    ring = keys_of(keys)
    starts = [keys * number // threads for number in range(threads)]
    turns = [list(islice(cycle(ring[start:] + ring[:start]), share)) for start in starts]
    # One more than the threads: the main thread starts the watch.
    barrier = threading.Barrier(threads + 1)
    workers = [
        threading.Thread(target=_work, args=(purgatory, keys_in_turn, barrier))
        for keys_in_turn in turns
    ]
    for worker in workers:
        worker.start()
    settled_ns()
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
