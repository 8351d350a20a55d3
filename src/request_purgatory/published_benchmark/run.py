"""The published benchmark of request purgatories, once, in this process.

Command: `python -m request_purgatory.published_benchmark.run key=value ...`

One thread enqueues requests with exponentially distributed gaps, at a target rate or as fast as it
can. Each request is watched under a few shared keys, on which nothing happens, and has a latency,
log-normal by its median and 75th percentile; a second thread completes it when that has passed.
What has not been completed after the timeout is expired by the purgatory's reaper. Timings are
real, nothing is virtual.

As in Apache Kafka's own version (TestPurgatoryPerformance): gaps and latencies are drawn
beforehand, a request carries 100 bytes, its `try_complete` looks at the clock, and waiting for the
next arrival goes by whole milliseconds. What differs: the second thread's queue. Java's is a
DelayQueue, a heap; here it is a list for each millisecond, so that it costs both designs little.
"""

from __future__ import annotations

import gc
import json
import math
import os
import random
import sys
import threading
import time
from array import array
from collections import defaultdict
from dataclasses import dataclass
from time import monotonic
from typing import Any

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.purgatory.legacy import LegacyPurgatory
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory

#: Median and 75th percentile of the latencies in ms, by the case's name.
CASES = {"low": (20.0, 60.0), "high": (200.0, 400.0)}
DESIGNS: dict[str, type[DelayedOperationPurgatory]] = {
    "wheel": DelayedOperationPurgatory,
    "legacy": LegacyPurgatory,
}
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

_Z75 = 0.6744897501960817  # the 75th percentile of a normal distribution, in standard deviations
_SETTLE_S = 120.0


@dataclass(frozen=True)
class Load:
    """What a run is asked for.

    Attributes:
        case: a name of CASES.
        design: a name of DESIGNS.
        rate: requests a second; 0 for as many as can be.
        count: how many requests.
        timeout_ms: of each request.
        keys: under how many keys each request is watched, the same ones for all.
        seed: the gaps and latencies follow from it.
    """

    case: str = "low"
    design: str = "wheel"
    rate: int = 0
    count: int = 1_000_000
    timeout_ms: int = 200
    keys: int = 3
    seed: int = 1

    def __post_init__(self) -> None:
        for name, known in (("case", CASES), ("design", DESIGNS)):
            if getattr(self, name) not in known:
                raise InvalidArgumentError(name, f"one of {', '.join(known)}", getattr(self, name))
        for name, least in (("rate", 0), ("count", 1), ("timeout_ms", 1), ("keys", 1)):
            if getattr(self, name) < least:
                raise InvalidArgumentError(name, f"at least {least}", getattr(self, name))


class TimedRequest(DelayedOperation):
    """A request whose condition is that a time has come.

    Its attributes are set by whoever makes it: an __init__ in Python would
    be two more calls each."""

    __slots__ = ("completes_at", "payload")

    completes_at: float
    payload: bytes

    def try_complete(self) -> bool:
        return monotonic() >= self.completes_at and self.force_complete()

    def on_complete(self) -> None:
        """There is nobody to answer."""


class Completer:
    """The second thread: completes each request when its time has come."""

    def __init__(self, purgatory: DelayedOperationPurgatory) -> None:
        self._purgatory = purgatory
        #: Who is to be completed at each millisecond that has not been dealt with.
        self.by_ms: defaultdict[int, list[TimedRequest]] = defaultdict(list)
        #: The last millisecond that has.
        self.done_ms = int(monotonic() * 1000)
        self._stopped = False
        self.peak_pending = 0
        self._thread = threading.Thread(target=self._run, name="completer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped:
            now = monotonic()
            now_ms = int(now * 1000)
            while self.done_ms < now_ms:
                self.done_ms += 1
                for request in self.by_ms.pop(self.done_ms, ()):
                    request.force_complete()
            self.peak_pending = max(self.peak_pending, self._purgatory.num_delayed)
            time.sleep(max((now_ms + 1) / 1000 - monotonic(), 0.0))

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._thread.join(10)


class CollectorTime:
    """Adds up the seconds that the cyclic collector takes, while in use."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def __call__(self, phase: str, _info: dict[str, int]) -> None:
        """For `gc.callbacks`."""
        # CPU time of this thread: others may run between the two calls.
        if phase == "start":
            self._began = time.thread_time()
        else:
            self.seconds += time.thread_time() - self._began

    def __enter__(self) -> CollectorTime:
        gc.callbacks.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self)


def measure(load: Load) -> dict[str, float]:
    """Run the benchmark once; a value for each of METRICS.

    RuntimeError if a request is lost or ends twice.
    """
    chance = random.Random(load.seed)
    median_ms, p75_ms = CASES[load.case]
    sigma = math.log(p75_ms / median_ms) / _Z75
    # Arrays, as Java has them: the collector would walk lists of a million numbers again and again.
    latencies = array(
        "d", [chance.lognormvariate(math.log(median_ms / 1000), sigma) for _ in range(load.count)]
    )
    gaps = array(
        "d", [chance.expovariate(load.rate) for _ in range(load.count)] if load.rate else []
    )
    keys = [f"key-{number}" for number in range(load.keys)]
    purgatory = DESIGNS[load.design](f"published-{load.design}", purge_interval=1000)
    completer = Completer(purgatory)
    try:
        gc.collect()
        with CollectorTime() as collector:
            cpu_began = time.process_time()
            began = monotonic()
            _enqueue(purgatory, completer, load.timeout_ms, keys, latencies, gaps)
            enqueued = monotonic()
            while purgatory.num_delayed:
                if monotonic() - enqueued > _SETTLE_S:
                    pending = purgatory.num_delayed
                    raise RuntimeError(
                        f"{pending} requests are pending {_SETTLE_S} s after the last one came"
                    )
                time.sleep(0.001)
            ended = monotonic()
            cpu_seconds = time.process_time() - cpu_began
        counted = purgatory.metrics()
    finally:
        completer.stop()
        purgatory.shutdown()
    if counted.completions + counted.expirations != load.count:
        raise RuntimeError(
            f"{counted.completions} completed and {counted.expirations} expired of {load.count} requests"
        )
    return {
        "enqueue_rate": load.count / (enqueued - began),
        "enqueue_seconds": enqueued - began,
        "total_seconds": ended - began,
        "cpu_seconds": cpu_seconds,
        "cpu_seconds_per_million": cpu_seconds / load.count * 1e6,
        "gc_seconds": collector.seconds,
        "peak_pending": completer.peak_pending,
        "completed": counted.completions,
        "expired": counted.expirations,
        "peak_memory_bytes": _peak_memory_bytes(),
    }


def _enqueue(
    purgatory: DelayedOperationPurgatory,
    completer: Completer,
    timeout_ms: int,
    keys: list[str],
    latencies: array[float],
    gaps: array[float],
) -> None:
    watch = purgatory.try_complete_else_watch
    by_ms = completer.by_ms
    arrives_at = monotonic()
    for number, latency in enumerate(latencies):
        now = monotonic()
        if gaps:
            arrives_at += gaps[number]
            # By whole milliseconds: who sleeps for each of 100,000 gaps a second measures how long
            # sleeping takes.
            while arrives_at > now + 0.001:
                time.sleep(0.001)
                now = monotonic()
        request = TimedRequest(timeout_ms)
        request.completes_at = completes_at = now + latency
        request.payload = bytes(100)
        at_ms = int(completes_at * 1000) + 1
        by_ms[at_ms].append(request)
        if at_ms <= completer.done_ms:
            # That millisecond was dealt with since the look at the clock.
            request.force_complete()
        watch(request, keys)


def _peak_memory_bytes() -> int:
    try:
        import resource
    except ImportError:  # pragma: no cover - on Windows only
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(arguments: list[str]) -> int:
    """Measure what `key=value` arguments ask for and print the metrics as one line of JSON."""
    try:
        given = dict(argument.split("=", 1) for argument in arguments)
        fields: dict[str, Any] = {
            name: value if name in ("case", "design") else int(value)
            for name, value in given.items()
        }
        load = Load(**fields)
    except (TypeError, ValueError) as error:
        print(f"{' '.join(arguments)}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(measure(load)), flush=True)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    if code:
        sys.exit(code)
    os._exit(0)  # Freeing what is left is no part of the answer.
