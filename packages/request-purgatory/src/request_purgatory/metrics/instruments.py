"""What is exported of a purgatory and of a timer: names, units and help texts."""

from __future__ import annotations

from dataclasses import dataclass

import request_purgatory


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric with one value.

    Attributes:
        name: Its name without prefix and unit.
        field: The field of PurgatoryMetrics or TimerMetrics.
        text: What it is.
        is_counter: True if the value only grows.
        in_seconds: True if the value is in seconds; the field has milliseconds.
    """

    name: str
    field: str
    text: str
    is_counter: bool = False
    in_seconds: bool = False

    def value(self, metrics: object) -> float:
        """Return the value of a reading."""
        value: int = getattr(metrics, self.field)
        return value / 1000 if self.in_seconds else value


OF_PURGATORIES = (
    Instrument(
        "pending",
        "num_delayed_operations",
        "Operations that wait (Kafka: NumDelayedOperations).",
    ),
    Instrument(
        "watched",
        "purgatory_size",
        "Entries in watcher lists, ended operations until the next purge included "
        "(Kafka: PurgatorySize).",
    ),
    Instrument(
        "longest_callback",
        "max_callback_ms",
        "Longest run of one expiration's callbacks since the start.",
        in_seconds=True,
    ),
    Instrument(
        "reaper_lateness",
        "max_late_ms",
        "Largest delay of an expiration behind its deadline since the start.",
        in_seconds=True,
    ),
    Instrument("completed", "completions", "Operations that completed.", is_counter=True),
    Instrument(
        "expired",
        "expirations",
        "Operations that expired (Kafka: ExpiresPerSec).",
        is_counter=True,
    ),
    Instrument("cancelled", "cancellations", "Operations that were cancelled.", is_counter=True),
    Instrument("purges", "purges", "Purges of the watcher lists.", is_counter=True),
    Instrument("purged_entries", "purged_entries", "Entries that purges removed.", is_counter=True),
    Instrument(
        "callback_errors",
        "callback_errors",
        "Exceptions that operations' code raised and the purgatory logged.",
        is_counter=True,
    ),
)

#: The sum of all waits. Prometheus has it in its histogram.
WAIT = Instrument(
    "wait",
    "total_wait_ms",
    "How long operations waited until they ended in any way.",
    is_counter=True,
    in_seconds=True,
)

#: The version and the build of the package, as labels. The value is 1.
BUILD = Instrument("build", "", "Version and build (compiled or interpreted) of the package.")


def build_labels() -> dict[str, str]:
    """Return the labels of `BUILD`."""
    build = "compiled" if request_purgatory.__compiled__ else "interpreted"
    return {"version": request_purgatory.__version__, "build": build}


OF_TIMERS = (
    Instrument("timer_pending", "pending", "Tasks that are pending in timers."),
    Instrument(
        "timer_callback_errors",
        "callback_errors",
        "Exceptions that timers' tasks raised and the timer logged.",
        is_counter=True,
    ),
)
