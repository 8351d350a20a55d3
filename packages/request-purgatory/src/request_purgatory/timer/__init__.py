"""Timers on a hierarchical timing wheel."""

from request_purgatory.timer.interface import Timer
from request_purgatory.timer.occupancy import WheelOccupancy
from request_purgatory.timer.task import TimerHandle, TimerTask
from request_purgatory.timer.timer import SystemTimer

__all__ = ["SystemTimer", "Timer", "TimerHandle", "TimerTask", "WheelOccupancy"]
