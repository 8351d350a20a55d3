"""A forked child's copies of its parent's sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection

#: By whose names the system lists the open descriptors of the process.
_DESCRIPTORS = "/dev/fd"
_ANY_HOSTS = ("0.0.0.0", "::")


def close_copied_sockets(addresses: Collection[tuple[str, int]]) -> None:
    """Close all TCP sockets of the process whose own address is one of these, as host and port.

    These are the listeners of the addresses and what they have accepted, maybe just now. They are
    the parent's: an object of the child that refers to a descriptor is not told, and closes it some
    time. So each descriptor stays in use, for nothing.
    """
    before = socket.getdefaulttimeout()
    # With a timeout, Python's object for a descriptor would change the parent's socket, too.
    socket.setdefaulttimeout(None)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        for descriptor in map(int, os.listdir(_DESCRIPTORS)):
            own = _own_address(descriptor)
            if any((any_host, own[1]) in addresses for any_host in (own[0], *_ANY_HOSTS)):
                os.dup2(null, descriptor, inheritable=False)
    finally:
        os.close(null)
        socket.setdefaulttimeout(before)


def _own_address(descriptor: int) -> tuple[str, int]:
    """Return the host and port of a TCP socket; the port of anything else is -1."""
    try:
        copy = socket.socket(fileno=descriptor)
    except OSError:  # No socket, or closed since the list was made.
        return "", -1
    try:
        if copy.type == socket.SOCK_STREAM and copy.family in (socket.AF_INET, socket.AF_INET6):
            host, port, *_ = copy.getsockname()
            return host, port
    except OSError:  # The connection has ended, on some systems.
        pass
    finally:
        copy.detach()
    return "", -1
