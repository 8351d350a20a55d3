"""Timers on a hierarchical timing wheel."""

from request_purgatory.timer.task import TimerHandle, TimerTask
from request_purgatory.timer.timer import DEFAULT_TICK_MS, DEFAULT_WHEEL_SIZE, SystemTimer

__all__ = ["DEFAULT_TICK_MS", "DEFAULT_WHEEL_SIZE", "SystemTimer", "TimerHandle", "TimerTask"]
