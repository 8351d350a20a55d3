"""Threads of a test: joined with a time limit, and what they raise is raised again in the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


class Crew:
    """Starts threads and sees to it that all of them end, and well."""

    def __init__(self, time_limit: float = 30.0) -> None:
        """`time_limit`: seconds from here to the end of the last thread."""
        self.deadline = time.monotonic() + time_limit
        self.errors: list[BaseException] = []
        self.threads: list[threading.Thread] = []

    def start(self, work: Callable[..., object], *args: Any) -> threading.Thread:
        """Run `work(*args)` on a thread of its own."""

        def run() -> None:
            try:
                work(*args)
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=run, name=getattr(work, "__name__", "work"), daemon=True)
        self.threads.append(thread)
        thread.start()
        return thread

    def join(self) -> None:
        """Wait for all threads.

        AssertionError names those that don't end, and the first error of any is raised.
        """
        for thread in self.threads:
            thread.join(max(self.deadline - time.monotonic(), 0.0))
        stuck = [thread.name for thread in self.threads if thread.is_alive()]
        self.threads = []
        errors, self.errors = self.errors, []
        if errors:
            raise errors[0]
        assert not stuck, f"threads did not end in time: {stuck}"
