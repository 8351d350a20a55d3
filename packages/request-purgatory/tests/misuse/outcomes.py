"""Makes each call in a process of its own, and says what became of it."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import inspect
import json
import os
import resource
import signal
from collections.abc import Sequence
from concurrent.futures import InvalidStateError
from dataclasses import asdict, dataclass
from typing import Any

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    PurgatoryError,
    SystemTimer,
    TimerTask,
)
from request_purgatory.aio import TimingWheelEventLoop
from tests.misuse.calls import SET, Call, make, needs_loop
from tests.misuse.hostile_values import HostileError
from tests.misuse.subjects import PARTS, LoopWorld, Task, World

#: Seconds that a call may take.
TIME_LIMIT = 10.0

#: Bytes of address space: a call that asks for more gets a MemoryError.
MEMORY_LIMIT = 2**32

RETURNED = "returned"
TOOL_FAILED = "the tool failed"

#: What a wrong call may raise, beside the package's own errors. No subclass of RuntimeError. The
#: last one is what a future that has ended says to whoever ends it by hand.
_EXPECTED = (PurgatoryError, TypeError, HostileError, NotImplementedError, InvalidStateError)


#: Methods that a timer or purgatory calls: a call by hand does what theirs does, once more.
CALLED_BY_OWNER = frozenset(
    {
        *("run", "drop", "_abandon_in_child", "detach", "answer", "disown"),
        *("try_complete", "on_complete", "on_expiration", "on_cancellation"),
    }
)

#: Methods whose argument is called later.
GIVES_CALLBACK = frozenset({"add_done_callback"})


@dataclass(frozen=True)
class Outcome:
    """What became of a call.

    Attributes:
        kind: RETURNED, the class of the exception, or the name of the signal that ended the child.
        text: The exception's text.
        is_documented: False for an exception that comes from inside.
        damage: What the call has left behind; empty if all is in order.
        ended_process: True for a crash, and for a call that took longer than TIME_LIMIT.
    """

    kind: str
    text: str = ""
    is_documented: bool = True
    damage: str = ""
    ended_process: bool = False

    @property
    def is_severe(self) -> bool:
        """True if the process, or what else is in it, has come to harm."""
        return self.ended_process or self.damage != ""


def outcomes_of(calls: Sequence[Call]) -> list[Outcome]:
    """Make calls in one child process, and return their outcomes.

    Where one of them crashes, hangs or leaves damage behind, each is made in a child of its own.
    """
    found = _in_child(calls)
    if len(calls) == 1 or not any(outcome.is_severe for outcome in found):
        return found
    alone = [_in_child([call])[0] for call in calls]
    if not any(outcome.is_severe for outcome in alone):
        alone[-1] = next(outcome for outcome in found if outcome.is_severe)
    return alone


def _in_child(calls: Sequence[Call]) -> list[Outcome]:
    """Make calls in a forked child; the list ends where the child does."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest-timeout has a handler for it.
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 1)
        os.dup2(devnull, 2)
        try:
            for call in calls:
                signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT)
                try:
                    outcome = _observe(call)
                except BaseException as error:
                    outcome = Outcome(TOOL_FAILED, repr(error), False)
                # Finalizers run now: a crash there is this call's.
                gc.collect()
                os.write(writing, json.dumps(asdict(outcome)).encode() + b"\n")
        finally:
            # Whatever fails: a child that lived on would run all further tests.
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        found = [Outcome(**json.loads(line)) for line in file]
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if len(found) < len(calls):
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        found.append(Outcome(name, is_documented=False, ended_process=True))
    return found


def _observe(call: Call) -> Outcome:
    if not needs_loop(call):
        world = World()
        try:
            result = make(call, world)
            if inspect.iscoroutine(result):
                result.close()
        except BaseException as error:
            result = error
        return _judged(call, world, result)
    with asyncio.Runner(loop_factory=TimingWheelEventLoop) as runner:
        return runner.run(_observe_on_loop(call))


async def _observe_on_loop(call: Call) -> Outcome:
    world = LoopWorld()
    await world.enter()
    try:
        result = make(call, world)
        if inspect.iscoroutine(result):
            result = await result
    except BaseException as error:
        result = error
    return _judged(call, world, result)


def _judged(call: Call, world: World, result: Any) -> Outcome:
    """Return the outcome, after a look at what the call has left behind."""
    raised = result if isinstance(result, BaseException) and _was_raised(result) else None
    used = damage = ""
    if raised is None and not call.member:
        try:
            used = _use(world, result)
        except BaseException as error:
            damage = f"its use raises {type(error).__name__}: {error}"
    del result
    if call.member in GIVES_CALLBACK:
        # ManualPurgatory raises what it raises, as it should: that is no damage.
        world.purgatory._errors.listener = None
        world.purgatory._raised.clear()
    if call.subject not in PARTS and call.use != SET and call.member not in CALLED_BY_OWNER:
        try:
            world.check()
        except BaseException as error:
            damage += f"{type(error).__name__}: {error}"
    if raised is None:
        return Outcome(RETURNED + used, damage=damage)
    documented = isinstance(raised, _EXPECTED) or type(raised) is RuntimeError
    try:
        text = str(raised)
    except HostileError:
        text = "its text raises"
    return Outcome(type(raised).__name__, text[:300], documented, damage)


def _was_raised(result: BaseException) -> bool:
    return result.__traceback__ is not None


def _use(world: World, made: Any) -> str:
    """Use what a call of a class has made, as documented.

    Returns:
        What that raised, as text; empty if nothing.
    """
    try:
        if isinstance(made, SystemTimer):
            repr(made)
            made.add(Task(0))
            made.add(Task(5))
            made.advance_clock(0)
            assert len(made.shutdown()) == 1, "a task was lost"
        elif isinstance(made, DelayedOperationPurgatory) and made is not world.purgatory:
            repr(made)
            made.hold(["a"], until=lambda: False, timeout=5)
            made.notify("a")
            assert len(made.close()) == 1, "a request was lost"
        elif isinstance(made, DelayedOperation):
            world.purgatory.try_complete_else_watch(made, ["b"])
        elif isinstance(made, TimerTask):
            world.timer.add(made)
            made.cancel()
    except _EXPECTED as error:
        return f", its use raises {type(error).__name__}"
    return ""
