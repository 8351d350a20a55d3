"""Threads of a test: joined with a time limit, and their errors raised in the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


class ThreadGroup:
    """Starts threads, and checks that all of them end without an error."""

    def __init__(self, time_limit: float = 30.0) -> None:
        """Create a group whose threads have to end within `time_limit` seconds from now."""
        self.deadline = time.monotonic() + time_limit
        self.errors: list[BaseException] = []
        self.threads: list[threading.Thread] = []

    def start(self, work: Callable[..., object], *args: Any) -> threading.Thread:
        """Run `work(*args)` on a new thread."""

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
        """Wait for all threads to end.

        Raises:
            AssertionError: Threads did not end in time; the message has their names.
            BaseException: The first error of a thread.
        """
        for thread in self.threads:
            thread.join(max(self.deadline - time.monotonic(), 0.0))
        unfinished = [thread.name for thread in self.threads if thread.is_alive()]
        self.threads = []
        errors, self.errors = self.errors, []
        if errors:
            raise errors[0]
        assert not unfinished, f"threads did not end in time: {unfinished}"
