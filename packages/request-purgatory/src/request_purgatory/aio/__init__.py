"""The purgatory on an asyncio event loop, without a thread.

And an event loop whose timers are on the timing wheel.
"""

from request_purgatory.aio.loop import TimingWheelEventLoop, TimingWheelTimers
from request_purgatory.aio.purgatory import Purgatory

__all__ = ["Purgatory", "TimingWheelEventLoop", "TimingWheelTimers"]
