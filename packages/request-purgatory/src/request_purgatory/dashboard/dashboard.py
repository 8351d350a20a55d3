"""The server of the live page: one thread with an event loop, on loopback."""

from __future__ import annotations

import asyncio
import logging
import math
import numbers
import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress

from request_purgatory._native.forks import Forkable, register_for_forks
from request_purgatory.clock import Clock, MonotonicClock
from request_purgatory.dashboard._http_request import MAX_HEAD_BYTES
from request_purgatory.dashboard._shown import Showable, Shown
from request_purgatory.dashboard.connection import serve_connection
from request_purgatory.dashboard.feed import Feed
from request_purgatory.dashboard.panel import Panel
from request_purgatory.error_log import ErrorLog
from request_purgatory.errors import InvalidArgumentError, whole_number

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
#: The most connections at a time, pages and single requests together.
MAX_CONNECTIONS = 64
#: Seconds for the start, the end, and one reading that is asked for.
_TIMEOUT = 10.0
#: A reading that took long is followed by a pause this many times as long.
_PAUSES = 20


def serve_dashboard(
    *shown: Showable,
    port: int = 0,
    title: str = "",
    panels: Sequence[Panel] = (),
    interval: float = 1.0,
    clock: Clock | None = None,
) -> Dashboard:
    """Serve a live page of what waits, to browsers on this machine, until `close`.

    >>> from request_purgatory import DelayedOperationPurgatory
    >>> with DelayedOperationPurgatory("orders") as purgatory:
    ...     with serve_dashboard(purgatory) as dashboard:
    ...         print(dashboard.url)  # doctest: +ELLIPSIS
    http://127.0.0.1:...

    The server listens on the loopback interface only, and has one daemon thread. It has weak
    references to what it shows. Any thread may call this; a forked child does not serve.

    Args:
        shown: Purgatories, of threads or of event loops, and timers. Without any, the page shows
            all of the process, those that are made later, too.
        port: The TCP port; 0 takes a free one.
        title: What the page is about; the process by default.
        panels: Further parts of the page, such as a broker's.
        interval: Seconds between two readings. One that takes longer than a twentieth of it is
            followed by a longer pause.
        clock: The time of the readings; a MonotonicClock by default.

    Returns:
        The running server, which is a context manager.

    Raises:
        InvalidArgumentError: Something shown is neither a purgatory nor a timer, the port is not
            free, the interval is not a positive number, or an argument has another type.
    """
    seconds = _positive_number("interval", interval)
    if not 0 <= whole_number("port", port) <= 65_535:
        raise InvalidArgumentError("port", "between 0 and 65535", port)
    if not isinstance(title, str):
        raise InvalidArgumentError("title", "a str", title)
    if not isinstance(panels, Sequence) or not all(isinstance(panel, Panel) for panel in panels):
        raise InvalidArgumentError("panels", "a sequence of Panel", panels)
    if clock is not None and not isinstance(clock, Clock):
        raise InvalidArgumentError("clock", "a Clock or None", clock)
    feed = Feed(Shown(shown), clock or MonotonicClock(), panels, title)
    return Dashboard(feed, _listen(port), seconds)


def _positive_number(name: str, value: object) -> float:
    seconds = math.nan
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            seconds = float(value)
    if not (math.isfinite(seconds) and seconds > 0):
        raise InvalidArgumentError(name, "a positive number of seconds", value)
    return seconds


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        # The error's own text has the address once more.
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InvalidArgumentError("port", f"free on {LOOPBACK} ({reason})", port) from error


class Dashboard(Forkable):
    """A running server of the live page; `serve_dashboard` makes one. Any thread may call it."""

    def __init__(self, feed: Feed, listening: socket.socket, interval: float) -> None:
        """Start the server, which closes the socket; `interval` is in seconds."""
        self._feed = feed
        self._socket = listening
        self._interval = interval
        self._port: int = listening.getsockname()[1]
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        self._connections: set[asyncio.Task[None]] = set()
        self._errors = ErrorLog(logger)
        self._closed = False
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="purgatory-dashboard", daemon=True
        )
        try:
            self._thread.start()
            started.result(_TIMEOUT)
        except BaseException:
            listening.close()
            raise
        register_for_forks(self)

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{LOOPBACK}:{self._port}/"

    def refresh(self) -> None:
        """Take a reading now, as at the end of an interval, and send it to the open pages.

        No-op once the dashboard is closed. Not for the event loop that a panel reads on, which
        would wait for itself.
        """
        if not self._closed:
            reading = self._feed.read()
            asyncio.run_coroutine_threadsafe(reading, self._loop).result(_TIMEOUT)

    def close(self) -> None:
        """End the server, its connections and its thread. Further calls do nothing."""
        if self._closed:
            return
        self._closed = True
        with suppress(RuntimeError):  # It has ended by itself, which was logged.
            self._loop.call_soon_threadsafe(self._stopping.set)
        if threading.current_thread() is not self._thread:
            self._thread.join(_TIMEOUT)

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Dashboard {self.url}{' closed' if self._closed else ''}>"

    # -- on the dashboard's own thread

    def _run(self, started: Future[None]) -> None:
        try:
            # Not the program's own loop policy: its loops may be of another kind.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._serve(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._accept, sock=self._socket, limit=MAX_HEAD_BYTES)
        readings = asyncio.create_task(self._read_on())
        started.set_result(None)
        try:
            await self._stopping.wait()
        finally:
            server.close()
            tasks = [readings, *self._connections]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0)  # Aborted connections close their sockets.

    async def _read_on(self) -> None:
        took = 0.0
        while True:
            # A reading of very many operations is long: its share of the time stays small.
            await asyncio.sleep(max(self._interval, _PAUSES * took))
            took = await self._feed.read()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            logger.info("connection refused: %d are open, the most allowed", MAX_CONNECTIONS)
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await serve_connection(reader, writer, self._feed)
        except asyncio.CancelledError:
            pass  # The dashboard is closed.
        except Exception as error:
            self._errors.log(error, "a connection to %s has failed", self)
        finally:
            self._connections.discard(task)
            with suppress(OSError):
                # Closing would not end the connection while a forked child has a copy of it.
                writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            writer.transport.abort()

    # -- in a forked child

    def _reset_in_child(self) -> None:
        """Serve nothing: the parent does, and its port is free once the parent closes it."""
        self._closed = True
        self._socket.close()
