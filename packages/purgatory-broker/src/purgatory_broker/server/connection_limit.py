"""A limit on the connections of a process."""

from __future__ import annotations

import sys

#: The share of the process's open files that connections may take.
_CONNECTION_FILES_SHARE = 0.75


class ConnectionLimit:
    """Counts the open connections of all servers that share it, against the process's limit."""

    def __init__(self) -> None:
        self.num_open = 0

    @property
    def is_reached(self) -> bool:
        """Whether the process may have no further connection."""
        return self.num_open >= _max_connections()


def _max_connections() -> int:
    """Return the most connections that the process may have; without limit if it is unknown.

    With more connections than open files the event loop could not even accept one to close it.
    """
    try:
        import resource
    except ImportError:
        return sys.maxsize
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if files == resource.RLIM_INFINITY else int(files * _CONNECTION_FILES_SHARE)
