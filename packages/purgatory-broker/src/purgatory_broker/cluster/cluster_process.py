"""A cluster in its own process."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Unpack

from purgatory_broker.cluster.admin_server import ControlClient
from purgatory_broker.cluster.cluster_client import ClusterClient
from purgatory_broker.cluster.cluster_errors import ClusterError
from purgatory_broker.cluster_options import ClusterOptions, record_folder, settings_from

#: Seconds for the start and for the stop.
_TIMEOUT = 60.0


class ClusterProcess(ClusterClient):
    """A Kafka cluster for tests and development, in its own process.

    A test that blocks its interpreter does not block the cluster. The methods are those of
    `Cluster`. The process ends with the process that started it, however that ends; if that is
    killed, with the last of its forked children that have not called `close`.

    A forked child may run commands, on a connection of its own. Its `close`, or the end of its
    block, leaves the cluster to the process that has started it.
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
        #: The process that has started the cluster, and that stops it.
        self._parent_id = 0
        self._control: ControlClient | None = None
        self._call_lock = threading.Lock()

    def _describe(self) -> str:
        count = f"nodes={self.settings.nodes}"
        if self._process is None:
            return f"{count}, not started"
        if self._is_closed or (self._is_parent and self._process.poll() is not None):
            return f"{count}, not running"
        return f"{count} at {self.bootstrap_servers}, process {self._process.pid}"

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
        self._parent_id = os.getpid()
        try:
            self._start()
        except BaseException as error:  # Such as what a signal handler raises.
            self.kill_process()
            if isinstance(error, (OSError, ValueError)):
                raise ClusterError(f"the cluster's process did not start: {error}") from error
            raise
        return self

    def _start(self) -> None:
        given = {"settings": asdict(self.settings), "record": self._record}
        # Without -P it would import from the current directory, such as a project's own kafka.py.
        command = [sys.executable, "-P", "-m", "purgatory_broker.cluster.process_main"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A Ctrl-C in a terminal reaches a whole group, and the program may go on after it.
            process_group=0 if os.name == "posix" else None,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(given, default=os.fspath).encode() + b"\n")
        self._process.stdin.flush()
        report = json.loads(self._read_first_line() or b"{}")
        if "bootstrap_servers" not in report:
            reason = report.get("error", "it ended without a message")
            raise ClusterError(f"the cluster's process did not start: {reason}")
        self._bootstrap_servers = report["bootstrap_servers"]
        self._control = ControlClient(report["control"])

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
        """Stop all nodes in an orderly way, and the process. Further calls do nothing.

        In a forked child, only the child's own connection ends.

        Raises:
            ClusterError: the end of the cluster has failed, as where the trace can't be written.
        """
        if self._process is None:
            return
        self._close_control()
        stdin = self._process.stdin
        if self._is_parent and stdin is not None and not stdin.closed:
            with suppress(OSError):  # The process is gone.
                # Closing is not enough while a forked child has a copy of the pipe.
                stdin.write(b"stop\n")
                stdin.flush()
        self._close_pipe(stdin)
        failure = None
        if self._is_parent:
            try:
                self._process.wait(_TIMEOUT)
                failure = self._read_failure()
            except subprocess.TimeoutExpired:
                self.kill_process()
        self._close_pipe(self._process.stdout)
        self._is_closed = True
        if failure is not None:
            raise ClusterError(failure)

    def _read_failure(self) -> str | None:
        """Return why the cluster has failed, in the last line of its process; None if it has not.

        Of further calls, all return None.
        """
        assert self._process is not None
        output = self._process.stdout
        if output is None or output.closed or self._process.returncode != 1:
            return None
        lines = output.read().splitlines()
        failure: str | None = json.loads(lines[-1]).get("error") if lines else None
        return failure

    def kill_process(self) -> None:
        """Kill the process by SIGKILL; the files in `data_dir` stay as they are.

        Raises:
            ClusterError: the caller is a forked child of the process that has started the cluster.
        """
        if self._process is None:
            return
        if not self._is_parent:
            raise ClusterError(
                f"kill_process: process {self._parent_id} has started the cluster, "
                f"not this one ({os.getpid()})"
            )
        self._process.kill()
        self._process.wait(_TIMEOUT)
        self._close_control()
        self._close_pipe(self._process.stdin)
        self._close_pipe(self._process.stdout)

    @property
    def _is_parent(self) -> bool:
        return self._parent_id == os.getpid()

    def _close_control(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()

    def _close_pipe(self, pipe: IO[bytes] | None) -> None:
        if pipe is not None:
            with suppress(OSError):  # Unsent data: the process that would read it is gone.
                pipe.close()

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
