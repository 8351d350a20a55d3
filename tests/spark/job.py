"""A process of a test with all that it starts, read line by line, and never left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from request_purgatory.pipeline.spark import session

#: Seconds; several JVMs and their Python workers may start at once, on a busy machine too.
TIME_LIMIT = 280.0


def clean_environment(**more: str) -> dict[str, str]:
    """This process's, without what says where Spark and the package are."""
    ours = (
        "SPARK_HOME",
        "SPARK_REMOTE",
        "SPARK_ENV_LOADED",
        "PYTHONPATH",
        "PYSPARK_PYTHON",
        "PYSPARK_GATEWAY_PORT",
        "MASTER",
    )
    # All on loopback, whatever name the machine has.
    return (
        {name: value for name, value in os.environ.items() if name not in ours}
        | {"SPARK_LOCAL_IP": "127.0.0.1"}
        | more
    )


#: For a JVM that lives for seconds: code that runs once is not worth the second compiler, or a
#: collector with threads of its own.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def quick_spark(folder: Path, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return environment variables by which a Spark of its own starts and plans quickly, with one shuffle partition.

    Tests that need the settings that users get go without it.

    Args:
        folder: Where Spark's configuration is put, in `conf`.
        settings: Further ones of Spark's, instead of those here.
    """
    quick = {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.executor.extraJavaOptions": QUICK_JAVA,
        "spark.ui.enabled": "false",
    }
    configuration = folder / "conf"
    configuration.mkdir(exist_ok=True)
    lines = [f"{name} {value}\n" for name, value in (quick | dict(settings or {})).items()]
    (configuration / "spark-defaults.conf").write_text("".join(lines))
    # As the package has it where it starts Spark itself; spark-submit would write a line for
    # everything it does.
    shutil.copy(Path(session.__file__).with_name("log4j2.properties"), configuration)
    # Both without a word on the console, which JAVA_TOOL_OPTIONS would have.
    options = {"SPARK_SUBMIT_OPTS": QUICK_JAVA, "SPARK_LAUNCHER_OPTS": QUICK_JAVA}
    return {"SPARK_CONF_DIR": str(configuration), **options}


class Job:
    """A process and all that it starts, whose lines are read as they come.

    Killed at the time limit.
    """

    def __init__(self, arguments: list[str], log: Path, environment: dict[str, str]) -> None:
        self.log = log
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
        self._limit = threading.Timer(TIME_LIMIT, self.kill)
        self._limit.start()

    def until(self, beginning: str, containing: str = "") -> str:
        """Read lines until one begins so, and has that in it; it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(beginning) and containing in line:
                return line
        pytest.fail(
            f"ended without a line {beginning!r}: {self.log.read_text(errors='replace')[-3000:]}"
        )

    def end(self) -> tuple[int, str]:
        """The exit code, and the rest of what it said."""
        said, _ = self.process.communicate(timeout=TIME_LIMIT)
        self._limit.cancel()
        return self.process.returncode, said

    def with_word(self, word: bytes) -> list[int]:
        """Its processes whose command line has the word."""
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                group = int(status.read_text().rsplit(")", 1)[1].split()[2])
                line = (status.parent / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if group == self.process.pid and word in line:
                found.append(int(status.parent.name))
        return found

    def workers(self) -> list[int]:
        """The processes of Spark's Python workers, the daemon they come from not among them."""
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rsplit(")", 1)[1].split()
                line = (status.parent / "cmdline").read_bytes()
                parent = (status.parents[1] / fields[1] / "cmdline").read_bytes()
            except OSError:
                continue
            if (
                int(fields[3]) == self.process.pid
                and b"pyspark.daemon" in line
                and b"pyspark.daemon" in parent
            ):
                found.append(int(status.parent.name))
        return found

    def kill(self) -> None:
        """Kill -9, the JVMs and all."""
        self._limit.cancel()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(TIME_LIMIT)


@contextmanager
def job(arguments: list[str], log: Path, **environment: str) -> Iterator[Job]:
    """A job that does not outlive the block, in the folder of its log."""
    running = Job(arguments, log, clean_environment(**environment))
    try:
        yield running
    finally:
        running.kill()
        assert running.process.stdout is not None
        running.process.stdout.close()
