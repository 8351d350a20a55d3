"""Child processes of tests, which are killed with all their own children at the end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from purgatory_spark._spark import session

#: Seconds. Several JVMs and their Python workers may start at once on a busy machine.
TIME_LIMIT = 280.0


def clean_environment(**more: str) -> dict[str, str]:
    """Return this process's environment without the variables that locate Spark and the package."""
    removed = (
        "SPARK_HOME",
        "SPARK_REMOTE",
        "SPARK_ENV_LOADED",
        "PYTHONPATH",
        "PYSPARK_PYTHON",
        "PYSPARK_GATEWAY_PORT",
        "MASTER",
    )
    # Listen on loopback, even if the machine's name has another address.
    return (
        {name: value for name, value in os.environ.items() if name not in removed}
        | {"SPARK_LOCAL_IP": "127.0.0.1"}
        | more
    )


#: For a JVM that lives for seconds: neither the optimizing compiler nor a parallel garbage
#: collector pays off.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def quick_spark(folder: Path, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return environment variables for a Spark that starts quickly and has one shuffle partition.

    Tests of the default settings do not use it. The configuration is written to `folder/conf`;
    `settings` overrides it. Temporary files are in `folder/tmp`.
    """
    # JVMs that are killed leave their temporary files: libraries, and an executor the archive.
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    java_options = f"{QUICK_JAVA} -Djava.io.tmpdir={temporary}"
    quick = {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.executor.extraJavaOptions": java_options,
        "spark.ui.enabled": "false",
    }
    configuration = folder / "conf"
    configuration.mkdir(exist_ok=True)
    lines = [f"{name} {value}\n" for name, value in (quick | dict(settings or {})).items()]
    (configuration / "spark-defaults.conf").write_text("".join(lines))
    # The package's own log configuration; with its default, spark-submit logs every step.
    shutil.copy(Path(session.__file__).with_name("log4j2.properties"), configuration)
    # Unlike JAVA_TOOL_OPTIONS, these two print nothing on the console.
    options = {"SPARK_SUBMIT_OPTS": java_options, "SPARK_LAUNCHER_OPTS": QUICK_JAVA}
    return {"SPARK_CONF_DIR": str(configuration), **options}


class Job:
    """A process group whose output is read line by line, killed at the time limit."""

    def __init__(
        self,
        arguments: list[str],
        log: Path,
        environment: dict[str, str],
        limit: float = TIME_LIMIT,
    ) -> None:
        self.log = log
        self._read: list[str] = []
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                arguments,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                env=environment,
                cwd=log.parent,
            )
        self._limit = threading.Timer(limit, self.kill)
        self._limit.start()

    def wait_for_line(self, prefix: str, containing: str = "") -> str:
        """Read output up to the first line with this prefix and text; return that line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._read.append(line)
            if line.startswith(prefix) and containing in line:
                return line
        self.process.wait(TIME_LIMIT)
        pytest.fail(f"ended without a line {prefix!r}: {self.describe()}")

    def wait(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and the rest of the output."""
        output, _ = self.process.communicate()  # The job is killed at its limit.
        self._limit.cancel()
        self._read.append(output)
        return self.process.returncode, output

    def describe(self) -> str:
        """Return the exit code, and both ends of the output, the log and the executors' logs.

        The exception of an application of spark-submit is in the output: Spark passes the
        application's standard error on with it. The log ends with errors of Spark's own shutdown.
        """
        texts = {"output": "".join(self._read), "log": _text(self.log)}
        # Executors of a local cluster have their folders in Spark's home, which is beside the log.
        for log in sorted(self.log.parent.rglob("app-*/*/stderr")):
            # Spark writes the command first, with all its options, and a line of equals signs.
            texts[str(log.relative_to(self.log.parent))] = _text(log).rpartition("====\n")[2]
        return f"exit code {self.process.returncode}" + "".join(
            f"\n--- {name}:\n{_both_ends(text.strip())}"
            for name, text in texts.items()
            if text.strip()
        )

    def find_pids(self, argument: bytes) -> list[int]:
        """Return the ids of its processes that have this command line argument.

        A child that a process has just forked has that process's arguments until it executes its
        own program, and is left out: a JVM starts a child for each `chmod`.
        """
        return [pid for pid, line, parent in self._processes() if argument in line - parent]

    def python_workers(self) -> list[int]:
        """Return the ids of Spark's Python workers, without the daemon that forks them."""
        daemon = b"pyspark.daemon"
        return [pid for pid, line, parent in self._processes() if daemon in line & parent]

    def _processes(self) -> Iterator[tuple[int, frozenset[bytes], frozenset[bytes]]]:
        """Yield its processes' ids with the arguments of each, and those of its parent."""
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                _, parent, _, session_id = status.read_text().rsplit(")", 1)[1].split()[:4]
                # Spark's Python daemon makes a process group of its own in the session.
                if int(session_id) == self.process.pid:
                    parent_folder = status.parents[1] / parent
                    yield (
                        int(status.parent.name),
                        _arguments(status.parent),
                        _arguments(parent_folder),
                    )
            except OSError:
                continue

    def kill(self) -> None:
        """Send SIGKILL to the whole process group."""
        self._limit.cancel()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(TIME_LIMIT)


def _arguments(process: Path) -> frozenset[bytes]:
    return frozenset((process / "cmdline").read_bytes().split(b"\0"))


def _text(file: Path) -> str:
    return file.read_text(errors="replace")


def _both_ends(text: str, length: int = 3000) -> str:
    """Return a text without what is between its first and its last `length` characters."""
    left_out = len(text) - 2 * length
    if left_out <= 0:
        return text
    return f"{text[:length]}\n[{left_out} characters left out]\n{text[-length:]}"


@contextmanager
def job(
    arguments: list[str], log: Path, *, limit: float = TIME_LIMIT, **environment: str
) -> Iterator[Job]:
    """Start a job in the folder of its log; kill it at the end of the block, or after `limit` s."""
    running = Job(arguments, log, clean_environment(**environment), limit)
    try:
        yield running
    finally:
        running.kill()
        assert running.process.stdout is not None
        running.process.stdout.close()


def await_port(port: int) -> None:
    """Wait until something listens on a port of the loopback address."""
    waiting = threading.Event()
    for _ in range(int(TIME_LIMIT / 0.2)):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            waiting.wait(0.2)
        else:
            return
    pytest.fail(f"nothing listens on {port}")
