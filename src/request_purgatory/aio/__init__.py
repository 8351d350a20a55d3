"""The purgatory on an asyncio event loop, without a thread; and event loops whose timers are on the timing wheel."""

from request_purgatory.aio.loop import TimingWheelEventLoop, TimingWheelTimers, new_event_loop
from request_purgatory.aio.purgatory import Purgatory

__all__ = ["Purgatory", "TimingWheelEventLoop", "TimingWheelTimers", "new_event_loop"]
