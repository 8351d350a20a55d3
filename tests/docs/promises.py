"""The defaults and limits that the documentation promises, each with the constant that keeps it.

A page is a file below docs/, or a public object, whose docstring it is. A constant is a name in a
module, `module:NAME`, or the default of a parameter, `module:function(parameter)`. A new promise
needs a line here; a package has a table of its own.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.docs.snippets import DOCS

MS_PER_YEAR = 31_557_600_000


@dataclass(frozen=True)
class Promise:
    """A phrase of the documentation with a number in it.

    Attributes:
        page: `how_to/metrics.md`, or `module:object`.
        phrase: The words around the number, which is a format field.
        constant: `module:NAME`, or `module:function(parameter)`.
        shown: What the page has of the constant's value.
    """

    page: str
    phrase: str
    constant: str
    shown: Callable[[Any], float] = lambda value: value

    @property
    def package(self) -> str:
        """The package that has the constant."""
        return re.split("[.:]", self.constant)[0]

    def text(self) -> str:
        """Return the page's text, in one line."""
        if self.page.endswith(".md"):
            text = (DOCS / self.page).read_text(encoding="utf-8")
        else:
            text = inspect.getdoc(_found(self.page)) or ""
        return " ".join(text.split())

    def value(self) -> float:
        """Return what the page has to show."""
        name, _, parameter = self.constant.rstrip(")").partition("(")
        found = _found(name)
        if parameter:
            found = inspect.signature(found).parameters[parameter].default
        return self.shown(found)


def _found(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


_CORE = "request_purgatory"
_PURGATORY = f"{_CORE}:DelayedOperationPurgatory"
_TIMER = f"{_CORE}:SystemTimer"
_LOOP = f"{_CORE}.aio:Purgatory"
_OPERATION = f"{_CORE}.purgatory.operation"
_DASHBOARD = f"{_CORE}.dashboard"

CORE = (
    # ticks and wheels
    Promise("how_to/size_wheels.md", "ticks of {} ms, wheels", f"{_TIMER}(tick_ms)"),
    Promise("how_to/size_wheels.md", "wheels of {} buckets, a purge", f"{_TIMER}(wheel_size)"),
    Promise("how_to/size_wheels.md", "every {:,} ended", f"{_PURGATORY}(purge_interval)"),
    Promise("how_to/size_wheels.md", "operations, {} shards", f"{_PURGATORY}(shards)"),
    Promise("how_to/size_wheels.md", "there, and {} are more than enough", f"{_PURGATORY}(shards)"),
    Promise("how_to/size_wheels.md", "| `tick_ms` | both | {} |", f"{_LOOP}(tick_ms)"),
    Promise("how_to/size_wheels.md", "| `tick_ms` | both | {} |", f"{_PURGATORY}(tick_ms)"),
    Promise("how_to/size_wheels.md", "| `wheel_size` | both | {} |", f"{_LOOP}(wheel_size)"),
    Promise("how_to/size_wheels.md", "| `wheel_size` | both | {} |", f"{_PURGATORY}(wheel_size)"),
    Promise(
        "how_to/size_wheels.md", "| `purge_interval` | both | {:,} |", f"{_LOOP}(purge_interval)"
    ),
    Promise(
        "how_to/size_wheels.md",
        "| `purge_interval` | both | {:,} |",
        f"{_PURGATORY}(purge_interval)",
    ),
    Promise("how_to/size_wheels.md", "| `shards` | threads' | {} |", f"{_PURGATORY}(shards)"),
    Promise(f"{_TIMER}.__init__", "from 2 to {:,}.", f"{_CORE}.timer.timer:MAX_WHEEL_SIZE"),
    Promise(f"{_PURGATORY}.__init__", "from 1 to {:,},", f"{_CORE}.purgatory.core:MAX_SHARDS"),
    Promise(f"{_PURGATORY}.__init__", "take this long, {} ms", f"{_PURGATORY}(warn_after_ms)"),
    Promise("how_to/migrate_conditions.md", "`batch` ({:,}) conditions", f"{_LOOP}(batch)"),
    # the longest times
    Promise(
        f"{_CORE}:TimerTask.__init__",
        "more than {:,} years",
        f"{_CORE}._native.primitives:MAX_DELAY_MS",
        lambda ms: ms // MS_PER_YEAR,
    ),
    Promise(
        f"{_CORE}:ManualClock.__init__",
        "from 0 to {} years",
        f"{_CORE}.clock:MAX_NOW_MS",
        lambda ms: ms // MS_PER_YEAR,
    ),
    # depths and repetitions
    Promise("explanation/design.md", "are {} deep", f"{_CORE}._native.primitives:MAX_CHECK_DEPTH"),
    Promise(
        "explanation/reliability.md",
        "checks {} deep",
        f"{_CORE}._native.primitives:MAX_CHECK_DEPTH",
    ),
    Promise(
        "explanation/reliability.md",
        "more than {} of them inside",
        f"{_CORE}._native.primitives:MAX_CHECK_DEPTH",
    ),
    Promise(
        f"{_PURGATORY}.check_and_complete",
        "by it again, {} deep",
        f"{_CORE}._native.primitives:MAX_CHECK_DEPTH",
    ),
    Promise(
        f"{_PURGATORY}.check_and_complete",
        "repeated {:,} times",
        f"{_CORE}.purgatory._nested_checks:MOST_IN_VAIN",
    ),
    Promise("explanation/design.md", "{:,} such rounds", f"{_OPERATION}:_MAX_SELF_NOTIFICATIONS"),
    Promise(
        f"{_CORE}:DelayedOperation.try_complete",
        "up to {:,} times",
        f"{_OPERATION}:_MAX_SELF_NOTIFICATIONS",
    ),
    # what is counted, shown and logged
    Promise("how_to/metrics.md", "up to {:,} for each", f"{_OPERATION}:MAX_TRIES"),
    Promise(f"{_PURGATORY}.snapshot", "at most {:,} tries", f"{_OPERATION}:MAX_TRIES"),
    Promise(
        f"{_CORE}:PurgatoryMetrics", "has {:,} numbers", f"{_CORE}.purgatory._counters:WAIT_BUCKETS"
    ),
    Promise("reference/logging.md", "Beyond {} kinds", f"{_CORE}.error_log:ErrorLog.MAX_KINDS"),
    Promise(
        "reference/logging.md",
        "a callback after {:g} s",
        f"{_CORE}.timer.clock_thread:ClockThread.stop(join_timeout)",
    ),
    Promise(
        f"{_PURGATORY}.close",
        "up to {:g} seconds",
        f"{_CORE}.timer.clock_thread:ClockThread.stop(join_timeout)",
    ),
    # the live page
    Promise("how_to/live_page.md", "last {} are kept", f"{_DASHBOARD}._sample_history:LENGTH"),
    Promise("how_to/live_page.md", "up to {:,} tasks", f"{_DASHBOARD}._present:MAX_IN_BUCKET"),
    Promise("how_to/live_page.md", "pause {} times", f"{_DASHBOARD}.dashboard:_PAUSES"),
    Promise("how_to/live_page.md", "{} pages may be open", f"{_DASHBOARD}.feed:MAX_PAGES"),
    Promise(
        "how_to/live_page.md", "counters every {:g} s", f"{_DASHBOARD}:serve_dashboard(interval)"
    ),
    # spans and virtual time
    Promise("how_to/metrics.md", "first {} watch keys", f"{_CORE}.tracing:_MAX_KEYS"),
    Promise("how_to/virtual_time.md", "after {:g} real seconds", f"{_CORE}.testing:_MAX_IDLE_S"),
)

#: All tables.
PROMISES = (*CORE,)
