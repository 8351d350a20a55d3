"""Timers on a hierarchical timing wheel."""

from request_purgatory.timer.task import TimerHandle, TimerTask
from request_purgatory.timer.timer import SystemTimer

__all__ = ["SystemTimer", "TimerHandle", "TimerTask"]
