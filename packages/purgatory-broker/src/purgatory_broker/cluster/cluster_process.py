"""A cluster in its own process."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Unpack

from purgatory_broker.cluster.admin_server import ControlClient
from purgatory_broker.cluster.cluster_client import ClusterClient
from purgatory_broker.cluster.cluster_errors import ClusterError
from purgatory_broker.settings import ClusterOptions, record_folder, settings_from

#: Seconds for the start and for the stop.
_TIMEOUT = 60.0


class ClusterProcess(ClusterClient):
    """A Kafka cluster for tests and development, in its own process.

    A test that blocks its interpreter does not block the cluster. The methods are those of
    `Cluster`. The process ends with the process that started it, however that ends.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        record: Path | str | None = None,
        **settings: Unpack[ClusterOptions],
    ) -> None:
        """Create a cluster; arguments and errors are those of `Cluster`."""
        self.settings = settings_from(nodes, settings)
        self._record = record_folder(record)
        self._process: subprocess.Popen[bytes] | None = None
        self._control: ControlClient | None = None
        self._call_lock = threading.Lock()
        self._bootstrap_servers = ""

    def start(self) -> ClusterProcess:
        """Start the process and its cluster, as entering the `with` block does.

        Returns:
            The cluster itself.

        Raises:
            ClusterError: the cluster did not start; the message gives the reason.
            RuntimeError: the cluster was started before.
        """
        if self._process is not None:
            raise RuntimeError("a cluster can be started once only; create another one")
        given = {"settings": asdict(self.settings), "record": self._record}
        command = [sys.executable, "-m", "purgatory_broker.cluster.process_main"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(given, default=os.fspath).encode() + b"\n")
            self._process.stdin.flush()
            report = json.loads(self._read_first_line() or b"{}")
        except (OSError, ValueError) as error:
            self.kill_process()
            raise ClusterError(f"the cluster's process did not start: {error}") from error
        if "bootstrap_servers" not in report:
            self.kill_process()
            reason = report.get("error", "it ended without a message")
            raise ClusterError(f"the cluster's process did not start: {reason}")
        self._bootstrap_servers = report["bootstrap_servers"]
        self._control = ControlClient(report["control"])
        return self

    def _read_first_line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        end = time.monotonic() + _TIMEOUT
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select(
                [self._process.stdout], [], [], max(0.0, end - time.monotonic())
            )
            if not ready:
                raise OSError(f"it sent nothing for {_TIMEOUT:.0f} s")
            part = os.read(self._process.stdout.fileno(), 4_096)
            if not part:
                break
            line += part
        return line

    def close(self) -> None:
        """Stop all nodes in an orderly way, and the process. Further calls do nothing."""
        if self._process is None:
            return
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill_process()
        self._close_output()

    def kill_process(self) -> None:
        """Kill the process by SIGKILL; the files in `data_dir` stay as they are."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(_TIMEOUT)
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except OSError:
                pass  # Unsent data: the process that would read it is gone.
        self._close_output()

    def _close_output(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, "host:port,host:port", for clients' `bootstrap_servers`."""
        return self._bootstrap_servers

    @property
    def pid(self) -> int:
        """The id of the cluster's process.

        Raises:
            RuntimeError: the cluster was not started.
        """
        if self._process is None:
            raise RuntimeError("the cluster was not started; call start() or enter the block")
        return self._process.pid

    def call(self, command: str, /, **arguments: Any) -> Any:
        """Run a command by its name, as in `COMMANDS`.

        Returns:
            The command's result.

        Raises:
            ClusterError: the cluster is not running, or refused the command.
        """
        control = self._control
        if control is None:
            raise ClusterError(f"{command}: the cluster is not running")
        if self._call_lock.acquire(blocking=False):
            try:
                return control.call(command, arguments)
            finally:
                self._call_lock.release()
        # Another thread's command, such as `wait_for`, may last until this one has run.
        with closing(ControlClient(control.address)) as other:
            return other.call(command, arguments)
