"""A cluster in a process of its own."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from request_purgatory.broker.cluster.admin_server import ControlClient
from request_purgatory.broker.cluster.cluster_client import RunningCluster
from request_purgatory.broker.cluster.commands import ClusterError
from request_purgatory.broker.settings import ClusterSettings

_TIME_LIMIT = 60.0


class ClusterProcess(RunningCluster):
    """A Kafka cluster for tests and development, in a process of its own: a test that blocks its interpreter does not block it.

    It has the methods of `Cluster`, and ends with the process that started it, however that ends.
    """

    def __init__(
        self, nodes: int = 1, *, record: Path | str | None = None, **settings: Any
    ) -> None:
        """As `Cluster`."""
        if isinstance(settings.get("data_dir"), str):
            settings["data_dir"] = Path(settings["data_dir"])
        self.settings = ClusterSettings(nodes=nodes, **settings)
        self._record = None if record is None else str(record)
        self._process: subprocess.Popen[bytes] | None = None
        self._control: ControlClient | None = None
        self._calling = threading.Lock()
        self._addresses = ""

    def start(self) -> ClusterProcess:
        """Start; what `with` does.

        Raises:
            ClusterError: it does not start; the message says why.
        """
        if self._process is not None:
            raise RuntimeError("a cluster is started once: make a new one")
        settings = asdict(self.settings)
        if settings["data_dir"] is not None:
            settings["data_dir"] = os.fspath(settings["data_dir"])
        command = [sys.executable, "-m", "request_purgatory.broker_process"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(
                json.dumps({"settings": settings, "record": self._record}).encode() + b"\n"
            )
            self._process.stdin.flush()
            told = json.loads(self._first_line() or b"{}")
        except (OSError, ValueError) as error:
            self.kill_process()
            raise ClusterError(f"the cluster's process does not start: {error}") from error
        if "bootstrap" not in told:
            self.kill_process()
            raise ClusterError(
                f"the cluster's process does not start: {told.get('error', 'it ended without a word')}"
            )
        self._addresses = told["bootstrap"]
        self._control = ControlClient(told["control"])
        return self

    def _first_line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        end = time.monotonic() + _TIME_LIMIT
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select(
                [self._process.stdout], [], [], max(0.0, end - time.monotonic())
            )
            if not ready:
                raise OSError(f"nothing was heard of it for {_TIME_LIMIT:.0f} s")
            part = os.read(self._process.stdout.fileno(), 4_096)
            if not part:
                break
            line += part
        return line

    def close(self) -> None:
        """Stop all nodes in an orderly way, and the process; may be repeated."""
        if self._process is None:
            return
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_TIME_LIMIT)
        except subprocess.TimeoutExpired:
            self.kill_process()
        self._close_output()

    def kill_process(self) -> None:
        """End the process by SIGKILL: what it has written to `data_dir` stays as it is."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(_TIME_LIMIT)
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except OSError:
                pass  # What was left to be written has nobody to read it.
        self._close_output()

    def _close_output(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def bootstrap(self) -> str:
        """What clients are given: the addresses of all nodes."""
        return self._addresses

    def call(self, command: str, /, **arguments: Any) -> Any:
        if self._control is None:
            raise ClusterError(f"{command}: the cluster does not run")
        with self._calling:
            return self._control.call(command, arguments)
