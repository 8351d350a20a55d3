"""What the open pages are sent: readings of what is shown, as JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import request_purgatory
from request_purgatory._native.failsafe import log_contained
from request_purgatory.clock import Clock
from request_purgatory.dashboard._present import present
from request_purgatory.dashboard._sample_history import SampleHistory
from request_purgatory.dashboard._shown import Shown
from request_purgatory.dashboard.panel import Panel
from request_purgatory.errors import InvalidArgumentError, PurgatoryError

logger = logging.getLogger(__name__)

#: The most pages that are open at a time.
MAX_PAGES = 16
#: Seconds for a panel's reading, and for an action.
_PANEL_TIMEOUT = 5.0
_ACTION_TIMEOUT = 30.0


class Feed:
    """Takes readings, and announces them to the connections of open pages.

    It belongs to one event loop, that of the dashboard's thread.

    Attributes:
        history: The samples.
        pages: The number of open pages. What waits is only looked at if there are any; the counts
            for the pictures over time always are.
    """

    def __init__(self, shown: Shown, clock: Clock, panels: Sequence[Panel], title: str) -> None:
        self._shown = shown
        self._clock = clock
        self._panels = {panel.name: panel for panel in panels}
        self._title = title
        self.history = SampleHistory(shown, clock)
        self._present = "{}"
        self._news: asyncio.Future[None] | None = None
        self.pages = 0

    async def read(self) -> float:
        """Take a sample, look and announce; return the seconds of this thread that it took."""
        began_ns = self._clock.now_ns
        try:
            self.history.take()
        except BaseException as error:
            log_contained(logger, error, "a sample for the dashboard has failed")
        return (self._clock.now_ns - began_ns) / 1e9 + await self.look()

    async def look(self) -> float:
        """Look at what waits if there are pages, and announce it; return the seconds it took."""
        took = 0.0
        if self.pages:
            began_ns = self._clock.now_ns
            try:
                reading = present(self._shown)
            except BaseException as error:
                # Also SystemExit, as of a key's `repr`: on this thread it ends the server alone.
                log_contained(logger, error, "a reading for the dashboard has failed")
                reading = {"error": f"the reading has failed: {str(error) or type(error).__name__}"}
            took = (self._clock.now_ns - began_ns) / 1e9
            panels = [f"{_json(name)}:{await self._read(name)}" for name in self._panels]
            reading["at_ms"] = self._clock.now_ms
            self._present = f'{_json(reading)[:-1]},"panels":{{{",".join(panels)}}}}}'
        news, self._news = self._news, None
        if news is not None:
            news.set_result(None)
        return took

    async def _read(self, name: str) -> str:
        """Return a panel's state, or an object with the error, as JSON."""
        try:
            async with asyncio.timeout(_PANEL_TIMEOUT):
                return _json(await self._panels[name].read())
        except TimeoutError:
            return _json({"error": f"the {name} has not answered for {_PANEL_TIMEOUT:.0f} s"})
        except Exception as error:
            # It may have stopped, which is no fault of the page.
            logger.info("the panel %r has no reading: %s", name, error)
            return _json({"error": str(error) or type(error).__name__})

    def news(self) -> asyncio.Future[None]:
        """Return a future that is done with the next announcement."""
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
        return self._news

    def hello(self) -> str:
        """Return what a page is sent first, as JSON: all samples, and what does not change."""
        about = {
            "title": self._title or f"process {os.getpid()}",
            "pid": os.getpid(),
            "program": _program(),
            "python": platform.python_version(),
            "version": request_purgatory.__version__,
            "compiled": request_purgatory.__compiled__,
            "panels": {name: dict(panel.about) for name, panel in self._panels.items()},
        }
        return f'{{"about":{_json(about)},{self._reading(0)}}}'

    def reading(self, seen: int) -> str:
        """Return what waits, and the samples since `taken` was `seen`, as JSON."""
        return f"{{{self._reading(seen)}}}"

    def _reading(self, seen: int) -> str:
        return f'"samples":{self.history.since(seen)},"now":{self._present}'

    async def act(self, panel: object, action: object, arguments: object) -> object:
        """Do what a button says, and announce what came of it; PurgatoryError if it is refused."""
        named = self._panels.get(panel) if isinstance(panel, str) else None
        if named is None or named.act is None:
            known = [name for name, shown in self._panels.items() if shown.act is not None]
            raise InvalidArgumentError("panel", f"one of {known}", panel)
        if not isinstance(action, str):
            raise InvalidArgumentError("action", "a name", action)
        if not isinstance(arguments, dict):
            raise InvalidArgumentError("arguments", "an object", arguments)
        try:
            async with asyncio.timeout(_ACTION_TIMEOUT):
                return await named.act(action, arguments)
        except TimeoutError:
            raise PurgatoryError(f"{action}: no answer for {_ACTION_TIMEOUT:.0f} s") from None
        finally:
            await self.look()


def _program() -> str:
    """Return the name of the program, or of the package that was run as one."""
    path = Path(sys.argv[0] if sys.argv else "")
    return path.parent.name if path.name == "__main__.py" else path.name


def _json(value: object) -> str:
    """Return a value as JSON; what JSON does not have, as text."""
    return json.dumps(value, separators=(",", ":"), default=str)
