"""The metrics of all purgatories and timers of a process, by name."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

import request_purgatory
from request_purgatory._native.forks import Forkable, IdentityRef, living, register_for_forks
from request_purgatory.purgatory._counters import PurgatoryCounters
from request_purgatory.purgatory._metric_table import (
    OF_PURGATORIES,
    OF_TIMERS,
    Metric,
    PurgatoryMetrics,
    TimerMetrics,
    add_up,
)
from request_purgatory.purgatory.core import PurgatoryCore
from request_purgatory.timer.timer import SystemTimer

Key = TypeVar("Key", str, tuple[str, ...])
Reading = TypeVar("Reading", PurgatoryMetrics, TimerMetrics)

#: What the metric `build` is, whose value is 1.
BUILD_HELP = "Version and build (compiled or interpreted) of the package."


def build_labels() -> dict[str, str]:
    build = "compiled" if request_purgatory.__compiled__ else "interpreted"
    return {"version": request_purgatory.__version__, "build": build}


class ProcessMetrics(Forkable):
    """Reads all purgatories of the process, those of threads and those of event loops.

    Purgatories of one name are added up. What is counted does not fall when one of them is freed:
    its counts stay in the sum as long as there is another purgatory of the name. So a counter falls
    only where it begins anew. Counts of a purgatory that was made and freed between two readings
    are missing.

    Each reader has an object of its own. Readings reset nothing, so two readers do not disturb one
    another. Any thread may read.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The counters outlive their purgatory, which ends what is pending when it is freed.
        self._known: dict[IdentityRef[PurgatoryCore], tuple[str, PurgatoryCounters]] = {}
        self._freed: dict[str, PurgatoryMetrics] = {}
        register_for_forks(self)

    def purgatories(self) -> dict[str, PurgatoryMetrics]:
        """Return the metrics of all purgatories, by name in the alphabet's order.

        O(shards) for each purgatory; interpreted, O(keys).
        """
        # Freed after the lock is released, in case this has the last references.
        cores = living(PurgatoryCore)
        with self._lock:
            by_name: dict[str, PurgatoryMetrics] = {}
            for core in cores:
                self._known[IdentityRef(core)] = (core.name, core._counters)
                _add(by_name, core.name, core.metrics(), OF_PURGATORIES)
            for reference in [known for known in self._known if known() is None]:
                name, counters = self._known.pop(reference)
                # What was pending when it was freed has been dropped.
                counted = replace(
                    counters.snapshot(0), num_delayed_operations=0, estimated_operations=0
                )
                _add(self._freed, name, counted, OF_PURGATORIES)
            self._freed = {name: self._freed[name] for name in self._freed if name in by_name}
            for name, metrics in self._freed.items():
                _add(by_name, name, metrics, OF_PURGATORIES)
        return dict(sorted(by_name.items()))

    def holds(self) -> dict[tuple[str, ...], PurgatoryMetrics]:
        """Return the metrics of the holds that have a name, by the purgatory's name and theirs.

        Those of purgatories that exist.
        """
        by_name: dict[tuple[str, ...], PurgatoryMetrics] = {}
        for core in living(PurgatoryCore):
            for name, metrics in core.metrics_by_name().items():
                _add(by_name, (core.name, name), metrics, OF_PURGATORIES)
        return dict(sorted(by_name.items()))

    def timers(self) -> dict[str, TimerMetrics]:
        """Return the metrics of all timers that exist, by name in the alphabet's order.

        The timers of purgatories are among them, under their purgatories' names.
        """
        by_name: dict[str, TimerMetrics] = {}
        for timer in sorted(living(SystemTimer), key=lambda timer: timer.name):
            _add(by_name, timer.name, TimerMetrics(timer.size, timer.callback_errors), OF_TIMERS)
        return by_name

    # -- in a forked child

    def _reinit_locks(self) -> None:
        self._lock = threading.Lock()

    def _reset_in_child(self) -> None:
        """Begin at 0, as the purgatories do: the parent reports what it has counted."""
        self._known = {}
        self._freed = {}


def _add(
    readings: dict[Key, Reading], name: Key, reading: Reading, table: Iterable[Metric]
) -> None:
    readings[name] = add_up(table, readings[name], reading) if name in readings else reading
