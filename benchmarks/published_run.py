"""One run of the published benchmark of request purgatories, in this process.

Command: `python -m benchmarks.published_run key=value ...`

One thread enqueues requests, at a target rate with exponentially distributed gaps or as fast as
possible. Each request is watched under a few keys that all requests share and that have no events.
A second thread completes each request after its latency, which is log-normal with a given median
and 75th percentile. The purgatory's reaper expires a request that is not complete at its timeout.
All times are real.

The workload is that of Apache Kafka's TestPurgatoryPerformance: gaps and latencies are drawn
beforehand, a request carries 100 bytes, its `try_complete` reads the clock, and the enqueuing
thread sleeps in whole milliseconds. As there, only requests with a latency below the timeout go to
the second thread. With `late_answers` all of them do, as in a service whose answers come late: the
second thread refers to a request until its latency is over, and completes it in vain if it has
expired.

The second thread's queue differs: Kafka uses Java's DelayQueue, which is a heap. A list for each
millisecond costs less, for all designs.
"""

from __future__ import annotations

import gc
import itertools
import json
import math
import os
import random
import sys
import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.legacy import LegacyPurgatory
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory

#: Median and 75th percentile of the latencies in ms, by the case's name. A test compares them with
#: `CASES` of `purgatory_spark._traces.workload`, which would load Spark into the measured process.
CASES = {"low": (20.0, 60.0), "high": (200.0, 400.0)}
DESIGNS: dict[str, type[DelayedOperationPurgatory]] = {
    "wheel": DelayedOperationPurgatory,
    "legacy": LegacyPurgatory,
}
#: The same loop with plain requests and no purgatory: what any design costs at least.
NO_PURGATORY = "none"
#: The unit of each metric of a run.
METRICS = {
    "enqueue_rate": "1/s",
    "enqueue_seconds": "s",
    "total_seconds": "s",
    "cpu_seconds": "s",
    "cpu_seconds_per_million": "s",
    "gc_seconds": "s",
    "peak_pending": "requests",
    "completed": "requests",
    "expired": "requests",
    "peak_memory_bytes": "bytes",
}

_Z75 = 0.6744897501960817  # The 75th percentile of a normal distribution, in standard deviations.
#: Time limit in seconds for pending requests to end after the last one was enqueued.
_DRAIN_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class BenchmarkRun:
    """The parameters of one run.

    Attributes:
        case: A name in `CASES`.
        design: A name in `DESIGNS`, or `NO_PURGATORY`.
        rate: Requests a second; 0 for no limit.
        count: Number of requests.
        timeout_ms: Timeout of each request.
        keys: Number of keys that each request is watched under, the same for all requests.
        seed: Determines the gaps and latencies.
        late_answers: 1 to have requests answered after their timeout, too; 0 for Kafka's rule, by
            which those get no answer. Without a purgatory nothing expires, so only 0 is possible.
    """

    case: str = "low"
    design: str = "wheel"
    rate: int = 0
    count: int = 1_000_000
    timeout_ms: int = 200
    keys: int = 3
    seed: int = 1
    late_answers: int = 0

    def __post_init__(self) -> None:
        for name, known in (("case", CASES), ("design", (*DESIGNS, NO_PURGATORY))):
            if getattr(self, name) not in known:
                raise InvalidArgumentError(name, f"one of {', '.join(known)}", getattr(self, name))
        allowed = (0,) if self.design == NO_PURGATORY else (0, 1)
        if self.late_answers not in allowed:
            expected = f"{' or '.join(map(str, allowed))} with the design {self.design}"
            raise InvalidArgumentError("late_answers", expected, self.late_answers)
        for name, least in (("rate", 0), ("count", 1), ("timeout_ms", 1), ("keys", 1)):
            if getattr(self, name) < least:
                raise InvalidArgumentError(name, f"at least {least}", getattr(self, name))


class TimedRequest(DelayedOperation):
    """A request that can complete from a given time on.

    The attributes are set from outside, because an `__init__` in Python would add two calls to
    each request.

    Attributes:
        completes_at: That time, on the clock `time.monotonic`.
        payload: Data that a request carries.
    """

    __slots__ = ("completes_at", "payload")

    completes_at: float
    payload: bytes

    def try_complete(self) -> bool:
        """Return whether the request's time has come, and complete it if so."""
        return monotonic() >= self.completes_at and self.force_complete()

    def on_complete(self) -> None:
        """Do nothing: no client waits for a response."""


class PlainRequest:
    """A request that no purgatory holds.

    Attributes:
        completes_at, payload: As those of a `TimedRequest`.
    """

    __slots__ = ("completes_at", "ended", "payload")

    #: Counts the requests of one run that ended, without a lock. A request that both threads end at
    #: the same moment counts twice.
    ends = itertools.count()

    completes_at: float
    payload: bytes

    def __init__(self, timeout_ms: int) -> None:  # noqa: ARG002 - as an operation's
        self.ended = False

    def try_complete(self) -> bool:
        """Return whether the request's time has come, and complete it if so."""
        return monotonic() >= self.completes_at and self.force_complete()

    def force_complete(self) -> bool:
        """Complete the request.

        Returns:
            True for the call that completed it.
        """
        if self.ended:
            return False
        self.ended = True
        next(PlainRequest.ends)
        self.on_complete()
        return True

    def on_complete(self) -> None:
        """Do nothing: no client waits for a response."""


class NoPurgatory:
    """Stands in for a purgatory, to measure what the loop costs by itself."""

    def __init__(self) -> None:
        self._entered = 0
        #: Counts the looks at `PlainRequest.ends`, each of which counts there as an end.
        self._looks = itertools.count()
        PlainRequest.ends = itertools.count()

    def try_complete_else_watch(self, request: PlainRequest, _keys: list[str]) -> bool:
        """Try the request, and keep nothing of it.

        Returns:
            True if it completed.
        """
        self._entered += 1
        return request.try_complete()

    @property
    def num_delayed(self) -> int:
        """About the number of requests that have not ended."""
        # A count can't be read otherwise: from Python 3.14 on it has no copies.
        ended = next(PlainRequest.ends) - next(self._looks)
        return max(self._entered - ended, 0)

    def close(self) -> None:
        """Do nothing."""


class CompletionThread:
    """The second thread, which completes each request after its latency.

    Attributes:
        by_ms: The requests to complete at each millisecond of the clock `time.monotonic`.
        finished_ms: The last millisecond whose requests the thread has completed. It does not
            read `by_ms` at this or an earlier millisecond again.
        peak_pending: The most pending requests seen, looked at once in a millisecond.
    """

    def __init__(self, purgatory: DelayedOperationPurgatory | NoPurgatory) -> None:
        """Start the thread.

        Args:
            purgatory: The purgatory whose pending requests are counted.
        """
        self._purgatory = purgatory
        self.by_ms: defaultdict[int, list[TimedRequest | PlainRequest]] = defaultdict(list)
        self.finished_ms = int(monotonic() * 1000)
        self.peak_pending = 0
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="completion", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped:
            now = monotonic()
            now_ms = int(now * 1000)
            while self.finished_ms < now_ms:
                self.finished_ms += 1
                for request in self.by_ms.pop(self.finished_ms, ()):
                    request.force_complete()
            self.peak_pending = max(self.peak_pending, self._purgatory.num_delayed)
            time.sleep(max((now_ms + 1) / 1000 - monotonic(), 0.0))

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stopped = True
        self._thread.join(10)


class GcTimer:
    """A context manager that measures the time spent in the cyclic garbage collector.

    The time includes other functions in `gc.callbacks`. The core has one there, which hides waiting
    operations from most collections and shows them to the others.

    Attributes:
        seconds: CPU time so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def _on_start(self, phase: str, _info: dict[str, int]) -> None:
        """Begin a collection, as the first function in `gc.callbacks`."""
        if phase != "start":
            return
        if gc.callbacks[-1] != self._on_stop:
            # Another function was registered later. The collector calls a function at an index, so
            # one that is moved behind the present index makes it skip none.
            gc.callbacks.remove(self._on_stop)
            gc.callbacks.append(self._on_stop)
        # CPU time of this thread: other threads may run between the two calls.
        self._began = time.thread_time()

    def _on_stop(self, phase: str, _info: dict[str, int]) -> None:
        """End a collection, as the last function in `gc.callbacks`."""
        if phase == "stop":
            self.seconds += time.thread_time() - self._began

    def __enter__(self) -> GcTimer:
        gc.callbacks.insert(0, self._on_start)
        gc.callbacks.append(self._on_stop)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._on_start)
        gc.callbacks.remove(self._on_stop)


def measure(run: BenchmarkRun) -> dict[str, float]:
    """Carry out a run.

    Args:
        run: The parameters.

    Returns:
        The value of each of `METRICS`.

    Raises:
        RuntimeError: Requests were lost or ended twice, or are still pending `_DRAIN_TIMEOUT_S`
            after the last one was enqueued.
    """
    latencies, gaps = _draw(run)
    keys = [f"key-{number}" for number in range(run.keys)]
    purgatory: DelayedOperationPurgatory | NoPurgatory
    answered_below = math.inf if run.late_answers else run.timeout_ms / 1000
    if run.design == NO_PURGATORY:
        # Nothing expires these requests: those that would expire complete at their timeout.
        answered_below = math.inf
        in_time = sum(latency * 1000 < run.timeout_ms for latency in latencies)
        latencies = array("d", [min(latency, run.timeout_ms / 1000) for latency in latencies])
        purgatory = NoPurgatory()
    else:
        purgatory = DESIGNS[run.design](f"published-{run.design}", purge_interval=1000)
    completions = CompletionThread(purgatory)
    try:
        gc.collect()
        with GcTimer() as gc_timer:
            cpu_began = time.process_time()
            began = monotonic()
            _enqueue(purgatory, completions, run.timeout_ms, keys, latencies, gaps, answered_below)
            enqueued = monotonic()
            _drain(purgatory, enqueued + _DRAIN_TIMEOUT_S)
            ended = monotonic()
            cpu_seconds = time.process_time() - cpu_began
        if isinstance(purgatory, NoPurgatory):
            completed, expired = in_time, run.count - in_time
        else:
            counted = purgatory.metrics()
            completed, expired = counted.completions, counted.expirations
    finally:
        completions.stop()
        purgatory.close()
    if completed + expired != run.count:
        raise RuntimeError(f"{completed} completed and {expired} expired of {run.count} requests")
    return {
        "enqueue_rate": run.count / (enqueued - began),
        "enqueue_seconds": enqueued - began,
        "total_seconds": ended - began,
        "cpu_seconds": cpu_seconds,
        "cpu_seconds_per_million": cpu_seconds / run.count * 1e6,
        "gc_seconds": gc_timer.seconds,
        "peak_pending": completions.peak_pending,
        "completed": completed,
        "expired": expired,
        "peak_memory_bytes": _peak_memory_bytes(),
    }


def _draw(run: BenchmarkRun) -> tuple[array[float], array[float]]:
    """Return the latencies, and the gaps between arrivals (none at an unlimited rate), in s."""
    generator = random.Random(run.seed)
    median_ms, p75_ms = CASES[run.case]
    mu, sigma = math.log(median_ms / 1000), math.log(p75_ms / median_ms) / _Z75
    # Arrays, as in Kafka's: the garbage collector would walk a list of a million numbers each time.
    latencies = array("d", [generator.lognormvariate(mu, sigma) for _ in range(run.count)])
    gaps = array(
        "d", [generator.expovariate(run.rate) for _ in range(run.count)] if run.rate else []
    )
    return latencies, gaps


def _enqueue(
    purgatory: DelayedOperationPurgatory | NoPurgatory,
    completions: CompletionThread,
    timeout_ms: int,
    keys: list[str],
    latencies: array[float],
    gaps: array[float],
    answered_below: float,
) -> None:
    """Enqueue all requests, and have those with a latency below `answered_below` s completed."""
    watch: Callable[[Any, list[str]], bool] = purgatory.try_complete_else_watch
    make = PlainRequest if isinstance(purgatory, NoPurgatory) else TimedRequest
    by_ms = completions.by_ms
    arrives_at = monotonic()
    for number, latency in enumerate(latencies):
        now = monotonic()
        if gaps:
            arrives_at += gaps[number]
            # In whole milliseconds: a sleep for each of 100,000 gaps a second would measure the
            # cost of sleeping.
            while arrives_at > now + 0.001:
                time.sleep(0.001)
                now = monotonic()
        request = make(timeout_ms)
        request.completes_at = completes_at = now + latency
        request.payload = bytes(100)
        if latency < answered_below:
            at_ms = int(completes_at * 1000) + 1
            by_ms[at_ms].append(request)
            if at_ms <= completions.finished_ms:
                # The thread has passed that millisecond since the clock was read above.
                request.force_complete()
        watch(request, keys)


def _drain(purgatory: DelayedOperationPurgatory | NoPurgatory, deadline: float) -> None:
    """Wait until no request is pending.

    Raises:
        RuntimeError: Requests are pending at `deadline`, a time on the clock `time.monotonic`.
    """
    while purgatory.num_delayed:
        if monotonic() > deadline:
            raise RuntimeError(
                f"{purgatory.num_delayed} requests are still pending {_DRAIN_TIMEOUT_S} s "
                "after the last one was enqueued"
            )
        time.sleep(0.001)


def _peak_memory_bytes() -> int:
    try:
        import resource
    except ImportError:  # pragma: no cover - on Windows only
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(arguments: list[str]) -> int:
    """Carry out a run and print its metrics as one line of JSON.

    Args:
        arguments: Attributes of `BenchmarkRun` as `key=value`.

    Returns:
        The exit code: 0, or 2 for bad arguments.
    """
    try:
        given = dict(argument.split("=", 1) for argument in arguments)
        fields: dict[str, Any] = {
            name: value if name in ("case", "design") else int(value)
            for name, value in given.items()
        }
        run = BenchmarkRun(**fields)
    except (TypeError, ValueError) as error:
        print(f"{' '.join(arguments)}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(measure(run)), flush=True)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    if code:
        sys.exit(code)
    os._exit(0)  # Freeing the remaining objects is not part of the benchmark.
