"""Stopping with a server: what waits ends at the signal, and not when the server is done waiting.

A server that is told to stop waits for its handlers first, and tells the application afterwards. A
handler that waits in a purgatory may have minutes to go. docs/how_to/clean_shutdown.md has the
servers that were tried.
"""

from __future__ import annotations

import _thread
import asyncio
import os
import signal
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from types import FrameType
from typing import Any, TypeAlias

from request_purgatory.aio.purgatory import Purgatory
from request_purgatory.errors import InvalidArgumentError, whole_number
from request_purgatory.purgatory.core import PurgatoryCore

__all__ = ["close_on_signal", "lifespan"]

#: What can be closed.
Closable: TypeAlias = PurgatoryCore | Purgatory

#: By which servers are told to stop.
STOPPING = (signal.SIGTERM, signal.SIGINT)


class _Closer:
    """The handler of one signal: closes purgatories, and calls the handler that was there before.

    It has them by weak references, and waits for nothing, whatever it has interrupted.
    """

    def __init__(self, purgatories: Iterable[Closable], before: Callable[..., object]) -> None:
        self._purgatories = [weakref.ref(purgatory) for purgatory in purgatories]
        self.before = before

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        for reference in self._purgatories:
            purgatory = reference()
            if isinstance(purgatory, Purgatory):
                purgatory.close_threadsafe()
            elif purgatory is not None:
                _close_on_thread(purgatory)
        self.before(signum, frame)


def _close_on_thread(purgatory: PurgatoryCore) -> None:
    # Not a `threading.Thread`, whose start takes locks that the interrupted code may hold.
    try:
        _thread.start_new_thread(purgatory.close, ())
    except RuntimeError as error:  # No further thread, or the interpreter is about to end.
        os.write(2, f"purgatory: no thread to close it at a signal: {error}\n".encode())


def _end_process(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's interface
    """Do what the system does where a program has no handler."""
    signal.signal(signum, signal.SIG_DFL)
    signal.raise_signal(signum)


def close_on_signal(*purgatories: Closable, signums: Iterable[int] = STOPPING) -> None:
    """Close purgatories as soon as a signal tells the process to stop; then go on as without.

    Call it on the main thread once the server has set its own handlers: in the lifespan, or where
    a worker imports the application. The server's handler runs after this one, and finds that its
    requests have ended: with PurgatoryClosedError, to be answered by 503. A signal that the process
    ignores stays ignored. One that nothing handles ends the process, as it would without.

    Args:
        *purgatories: Those of threads and of event loops. They are not kept alive.
        signums: The signals; SIGTERM and SIGINT by default.

    Raises:
        InvalidArgumentError: One is no purgatory, or the system does not let a signal be handled.
        ValueError: Called on another thread than the main one.
    """
    _install(purgatories, signums)


def _install(purgatories: tuple[Closable, ...], signums: Iterable[int]) -> dict[int, _Closer]:
    for purgatory in purgatories:
        if not isinstance(purgatory, (PurgatoryCore, Purgatory)):
            raise InvalidArgumentError("purgatories", "purgatories", purgatory)
    installed: dict[int, _Closer] = {}
    for signum in signums:
        number = whole_number("signums", signum, "signals to handle")
        if number not in signal.valid_signals():
            raise InvalidArgumentError("signums", "signals to handle", signum)
        before: Any = signal.getsignal(number)
        if before is signal.SIG_DFL:
            before = _end_process
        if not callable(before):
            continue  # Ignored, or handled by C code.
        closer = _Closer(purgatories, before)
        try:
            signal.signal(number, closer)
        except OSError as error:
            raise InvalidArgumentError("signums", f"signals to handle ({error})", signum) from error
        # Not `signal.siginterrupt(number, False)` as of asyncio and gunicorn: a main thread that
        # waits for a future would not be woken, and the handler would not run.
        installed[number] = closer
    return installed


def _uninstall(installed: dict[int, _Closer]) -> None:
    for number, closer in installed.items():
        present: object = signal.getsignal(number)
        if present is closer:
            before = closer.before
            signal.signal(number, signal.SIG_DFL if before is _end_process else before)


def lifespan(
    *purgatories: Closable,
) -> Callable[[object], AbstractAsyncContextManager[None]]:
    """Return a lifespan of ASGI applications: `FastAPI(lifespan=lifespan(purgatory))`.

    It enters the purgatories when the application starts, closes them at SIGTERM or SIGINT as
    `close_on_signal` does, and closes them at its end. On another thread than the main one, as in
    tests, there are no signals, and the end alone closes them.

    Args:
        *purgatories: Those of threads and of event loops. One lifespan enters them once.

    Raises:
        InvalidArgumentError: One is no purgatory.
    """
    for purgatory in purgatories:
        if not isinstance(purgatory, (PurgatoryCore, Purgatory)):
            raise InvalidArgumentError("purgatories", "purgatories", purgatory)

    @asynccontextmanager
    async def opened(_app: object) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for purgatory in purgatories:
                if isinstance(purgatory, Purgatory):
                    await stack.enter_async_context(purgatory)
                else:
                    # It may wait for a callback on the reaper.
                    stack.push_async_callback(asyncio.to_thread, purgatory.close)
            if threading.current_thread() is threading.main_thread():
                stack.callback(_uninstall, _install(purgatories, STOPPING))
            yield

    return opened
