"""A request purgatory: holds requests that can't be answered yet, and ends each exactly once.

`__compiled__` is True where the core runs as C, False where it runs as plain Python.
`__version__` is the release.
"""

import importlib

from request_purgatory._native import primitives
from request_purgatory.clock import Clock, ManualClock
from request_purgatory.errors import (
    InterruptedUseError,
    InvalidArgumentError,
    NotCompletedError,
    NotificationLoopError,
    NotInitializedError,
    OperationCancelledError,
    PurgatoryClosedError,
    PurgatoryError,
    TaskInUseError,
    TimerClosedError,
)
from request_purgatory.purgatory._metric_table import PurgatoryMetrics
from request_purgatory.purgatory._purgatory_snapshot import PurgatorySnapshot
from request_purgatory.purgatory.operation import DelayedOperation, Outcome
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.purgatory.quorum import Quorum, QuorumFailedError, QuorumTimeoutError
from request_purgatory.timer import SystemTimer, TimerHandle, TimerTask

__version__ = "0.2.0"
__compiled__ = primitives.COMPILED

if __compiled__:
    importlib.import_module("request_purgatory._native.collector_hooks")
    importlib.import_module("request_purgatory._native.class_signatures")

__all__ = [
    "Clock",
    "DelayedOperation",
    "DelayedOperationPurgatory",
    "InterruptedUseError",
    "InvalidArgumentError",
    "ManualClock",
    "NotCompletedError",
    "NotInitializedError",
    "NotificationLoopError",
    "OperationCancelledError",
    "Outcome",
    "PurgatoryClosedError",
    "PurgatoryError",
    "PurgatoryMetrics",
    "PurgatorySnapshot",
    "Quorum",
    "QuorumFailedError",
    "QuorumTimeoutError",
    "SystemTimer",
    "TaskInUseError",
    "TimerClosedError",
    "TimerHandle",
    "TimerTask",
    "__compiled__",
    "__version__",
]
