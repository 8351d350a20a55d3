"""Measure how long servers take to stop.

    pip install --group servers
    python -m benchmarks.stopping [--rounds 11] [SERVER ...]

A run starts a server, and ends it by SIGTERM at a random moment, since servers look at intervals
whether they are to stop. The floor is the application without the library while no request waits.
The runs alternate between servers and sides.
"""

from __future__ import annotations

import argparse
import http.client
import math
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

#: The sides: whether with the library, and whether a request waits.
SIDES = {"floor": (False, False), "without": (False, True), "with": (True, True)}
#: What is measured unless told otherwise. The other one takes 20 s a run.
USUAL = ("floor", "with")

_ASGI = "benchmarks.stopping.asgi:app"
_WSGI = "benchmarks.stopping.wsgi:app"
#: The arguments of `python -m`, with a port to come.
SERVERS = {
    "uvicorn": ("uvicorn", _ASGI, "--port", "{port}"),
    "uvicorn, two workers": ("uvicorn", _ASGI, "--workers", "2", "--port", "{port}"),
    "gunicorn, gthread": (
        *("gunicorn", _WSGI, "--worker-class", "gthread", "--threads", "4"),
        *("--bind", "127.0.0.1:{port}"),
    ),
    "gunicorn, sync": ("gunicorn", _WSGI, "--bind", "127.0.0.1:{port}"),
    "gunicorn, asgi": ("gunicorn", _ASGI, "--worker-class", "asgi", "--bind", "127.0.0.1:{port}"),
    "gunicorn, uvicorn-worker": (
        *("gunicorn", _ASGI, "--worker-class", "uvicorn_worker.UvicornWorker"),
        *("--bind", "127.0.0.1:{port}"),
    ),
    "hypercorn, --workers 0": (
        *("hypercorn", "--workers", "0", _ASGI),
        *("--bind", "127.0.0.1:{port}"),
    ),
    "hypercorn, serve": ("benchmarks.stopping.hypercorn_server", "{port}"),
    "aiohttp": ("benchmarks.stopping.aiohttp_server", "{port}"),
}
_PACKAGES = ("uvicorn", "gunicorn", "uvicorn-worker", "hypercorn", "aiohttp")
_STARTS_WITHIN_S = 120.0
_ENDS_WITHIN_S = 60.0
_LONGEST_TICK_S = 1.0


@dataclass(frozen=True)
class Stop:
    """How a run ended.

    Attributes:
        answered_s: From the signal to the answer of the waiting request; None without one.
        ended_s: From the signal to the end of the process.
        status: Of that answer; 0 if the connection broke.
    """

    answered_s: float | None
    ended_s: float
    status: int | None


class _Request(threading.Thread):
    """A request that waits in the server."""

    def __init__(self, port: int, keeps_open: bool) -> None:
        super().__init__(daemon=True)
        self._headers = {} if keeps_open else {"Connection": "close"}
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self.status = 0
        self.ended_at = 0.0

    def run(self) -> None:
        try:
            self._connection.request("GET", "/wait", headers=self._headers)
            self.status = self._connection.getresponse().status
        except (OSError, http.client.HTTPException):
            self.status = 0
        self.ended_at = time.perf_counter()


def stop_once(server: str, side: str, keeps_open: bool) -> Stop:
    """Start a server, stop it, and say how long it took."""
    library, waits = SIDES[side]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [argument.format(port=port) for argument in SERVERS[server]]
    workers = 2 if "two workers" in server else 1
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder)
        environment = os.environ | {"STOPPING_FOLDER": folder, "STOPPING_LIBRARY": str(+library)}
        with subprocess.Popen(
            [sys.executable, "-m", *command],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                _wait_until(lambda: len(list(told.glob("imported-*"))) >= workers, process)
                _wait_until(lambda: _listens(port), process)
                request = _Request(port, keeps_open)
                if waits:
                    request.start()
                    _wait_until(lambda: any(told.glob("waiting-*")), process)
                time.sleep(_LONGEST_TICK_S * (1 + random.random()))
                signalled_at = time.perf_counter()
                process.send_signal(signal.SIGTERM)
                limit = threading.Timer(_ENDS_WITHIN_S, process.kill)
                limit.start()
                process.wait()  # With a timeout it would look at intervals.
                ended_at = time.perf_counter()
                limit.cancel()
            finally:
                process.kill()
        if not waits:
            return Stop(None, ended_at - signalled_at, None)
        request.join()
        return Stop(request.ended_at - signalled_at, ended_at - signalled_at, request.status)


def _wait_until(happened: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + _STARTS_WITHIN_S
    while not happened():
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        if time.monotonic() > limit:
            raise TimeoutError(f"{process.args!r} did not start within {_STARTS_WITHIN_S} s")
        time.sleep(0.01)


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stopping", description=__doc__)
    parser.add_argument("servers", nargs="*", metavar="SERVER", help=", ".join(SERVERS))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=USUAL)
    parser.add_argument("--keep-alive", action="store_true", help="keep the connections open")
    options = parser.parse_args(arguments)
    servers = options.servers or list(SERVERS)
    if unknown := set(servers) - set(SERVERS):
        parser.error(f"unknown servers: {', '.join(sorted(unknown))}")
    stops: dict[tuple[str, str], list[Stop]] = {}
    for _ in range(options.rounds):
        for server in servers:
            for side in options.sides:
                stops.setdefault((server, side), []).append(
                    stop_once(server, side, options.keep_alive)
                )
    print(", ".join(f"{name} {version(name)}" for name in _PACKAGES))
    print(f"{'server':26}{'side':9}{'ended':>8}{'least':>8}{'most':>8}{'answered':>10}  statuses")
    for (server, side), ends in stops.items():
        ended = [end.ended_s for end in ends]
        answered = [end.answered_s for end in ends if end.answered_s is not None]
        statuses = sorted({end.status for end in ends if end.status is not None})
        print(
            f"{server:26}{side:9}{median(ended):8.2f}{min(ended):8.2f}{max(ended):8.2f}"
            f"{median(answered) if answered else math.nan:10.3f}  {statuses}"
        )


if __name__ == "__main__":
    main()
