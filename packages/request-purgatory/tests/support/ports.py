"""Free ports, each handed out to one test process only."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

from filelock import FileLock

# Below the ports of outgoing connections on Linux (32768 and up), which could take one in between.
_FIRST, _LAST = 20_000, 32_000
_NEXT = Path(tempfile.gettempdir()) / "request-purgatory-next-port"


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback address that are free.

    Each call continues after the ports of the last call in any process, so that two test processes
    never get the same port.

    Args:
        count: Number of ports.

    Returns:
        The port numbers.
    """
    with FileLock(f"{_NEXT}.lock", timeout=30):
        try:
            port = int(_NEXT.read_text())
        except (OSError, ValueError):
            port = _FIRST
        found: list[int] = []
        while len(found) < count:
            port = port + 1 if _FIRST <= port < _LAST else _FIRST
            if _is_free(port):
                found.append(port)
        _NEXT.write_text(str(port))
    return found


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False
