"""What an operation costs as the number pending grows.

`structure=timer`: schedule and cancel a timer, as in timer_cycle, except that the pending timers
are due in 5 to 15 minutes, because it takes long to add ten million.

`structure=purgatory`: make, watch and complete a request, as in purgatory_cycle, while `pending`
requests with a timeout of an hour watch 65,536 other keys. Purges are included: a purge scans all
lists, so pending requests under other keys do cost time. Ten million are measured for our side
only, and only if enough memory is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter_ns

from benchmarks import peers, timer_cycle
from benchmarks.question import Case, JvmCall, Parameter
from benchmarks.request import ADVANCE_EVERY, TIMEOUT_MS, Request, open_purgatory, watch_keys
from benchmarks.stopwatch import ns_after_gc, per_operation

QUESTION = "growth"
METRICS = {"ns_per_operation": "ns", "cpu_ns_per_operation": "ns"}
SIDES = (
    *(
        side
        for side in peers.TIMERS
        if side not in (peers.OURS_MANUAL, peers.SCHED, peers.THREADING)
    ),
    peers.LEGACY,
)

_SHORTEST_MS = 300_000
_STANDING_TIMEOUT_MS = 3_600_000
_STANDING_KEYS = 65_536
_BATCHES = 5
_BATCH = 4 * ADVANCE_EVERY
_MAX_FOR_ALL_SIDES = 1_000_000
#: A generous estimate for objects of an interpreted core, their entries in lists, and memory that
#: the allocator leaves unused.
_BYTES_EACH = {"timer": 400, "purgatory": 1_000}
_MEMINFO = Path("/proc/meminfo")


def cases(quick: bool) -> list[Case]:
    """Return cases with powers of ten of `pending`, for both structures."""
    sizes = (1_000, 10_000, 100_000) if quick else (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    return [
        Case({"structure": structure, "pending": pending}, pending, _jvm_call(structure, pending))
        for structure in ("timer", "purgatory")
        for pending in sizes
    ]


def _jvm_call(structure: str, pending: int) -> JvmCall | None:
    return timer_cycle.case(pending).jvm if structure == "timer" else None


def skip_reason(side: str, case: Case) -> str | None:
    """Return a reason for sides without the structure, or for a case that is too large."""
    structure = str(case.params["structure"])
    if structure == "timer" and side == peers.LEGACY:
        return "its timer is for purgatories only"
    if structure == "purgatory" and side not in (peers.OURS, peers.LEGACY):
        return (
            "has no purgatory"
            if side != peers.KAFKA
            else "the harness has no purgatory with others pending"
        )
    if case.size > _MAX_FOR_ALL_SIDES:
        return "measured for our side only" if side != peers.OURS else _missing_memory(case.params)
    return None


def _missing_memory(params: Mapping[str, Parameter]) -> str | None:
    needed = int(params["pending"]) * _BYTES_EACH[str(params["structure"])]
    if not _MEMINFO.exists():
        return f"needs {needed / 2**30:.0f} GiB, and the free memory is unknown without {_MEMINFO}"
    lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    if available < needed:
        return f"needs {needed / 2**30:.0f} GiB of memory, {available / 2**30:.1f} are available"
    return None


def measure(
    side: str,
    structure: str,
    pending: int,
    timer_operations: int = timer_cycle.OPERATIONS,
    purgatory_operations: int = _BATCH,
) -> dict[str, float]:
    """Measure operations while others are pending.

    Args:
        side: One of `SIDES`.
        structure: `timer` or `purgatory`.
        pending: The number of other operations that are pending.
        timer_operations: Cycles in a batch of `timer`; see `timer_cycle.measure`.
        purgatory_operations: Requests in a batch of `purgatory`.

    Returns:
        ns_per_operation.

    Raises:
        RuntimeError: The other operations did not stay pending.
    """
    if structure == "timer":
        return timer_cycle.measure(side, pending, timer_operations, _SHORTEST_MS)
    return _purgatory(side, pending, purgatory_operations)


def _purgatory(side: str, pending: int, batch: int) -> dict[str, float]:
    purgatory = open_purgatory(side)
    watch = purgatory.try_complete_else_watch
    check = purgatory.check_and_complete
    keys = watch_keys(_STANDING_KEYS)
    for number in range(pending):
        request = Request(_STANDING_TIMEOUT_MS)
        request.ready = False
        watch(request, [keys[number % _STANDING_KEYS]])
    purgatory.purge()
    elapsed_ns = []
    ns_after_gc()
    for _ in range(_BATCHES):
        start_ns = perf_counter_ns()
        for number in range(1, batch + 1):
            request = Request(TIMEOUT_MS)
            request.ready = False
            watch(request, ["event"])
            request.ready = True
            check("event")
            if number % ADVANCE_EVERY == 0:
                purgatory.advance_clock(0)
        elapsed_ns.append(perf_counter_ns() - start_ns)
    if purgatory.num_delayed != pending:
        raise RuntimeError(f"expected {pending} pending requests, got {purgatory.num_delayed}")
    return per_operation(elapsed_ns, batch)
