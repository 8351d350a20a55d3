"""What Spark's processes print, and what of it reaches the console."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from unittest.mock import create_autospec

import pytest
from pyspark.accumulators import _start_update_server
from pyspark.sql import SparkSession

from purgatory_spark._spark.console_filter import silence_lost_jvm, silence_py4j

#: Starts a process that prints each line of its input to stderr, and outlives the filter's block,
#: as the JVM does. After a line of this script's own input Spark is silenced, and the process gets
#: another line.
_SCRIPT = """
import subprocess, sys
from unittest.mock import create_autospec
from pyspark.sql import SparkSession
from purgatory_spark._spark.console_filter import silence_spark, without_noise

echo = "import sys\\nfor line in sys.stdin: print(line, end='', file=sys.stderr, flush=True)"
with without_noise():
    process = subprocess.Popen([sys.executable, "-c", echo], stdin=subprocess.PIPE, text=True)
process.stdin.write("WARNING: Using incubator modules: a.b\\n\\nan error\\n")
process.stdin.flush()
sys.stdin.readline()
spark = create_autospec(SparkSession, instance=True)
silence_spark(spark)
spark.sparkContext.setLogLevel.assert_called_once_with("OFF")
process.stdin.write("Traceback (most recent call last):\\n")
process.stdin.close()
process.wait()
print("stopped", file=sys.stderr)
"""
_TIME_LIMIT = 60


def test_known_noise_and_all_after_a_stop_is_dropped() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "an error\n"
        _, rest = process.communicate("\n", timeout=_TIME_LIMIT)
    assert (process.returncode, rest) == (0, "stopped\n")


@pytest.mark.parametrize("token", ["right", "wrong"])
def test_end_of_the_jvm_is_no_traceback(capfd: pytest.CaptureFixture[str], token: str) -> None:
    server = _start_update_server("right", is_unix_domain_sock=False)
    spark = create_autospec(SparkSession, instance=True)
    spark.sparkContext._accumulatorServer = server
    silence_lost_jvm(spark)
    with socket.create_connection(server.server_address) as jvm:  # type: ignore[arg-type]
        # The count of the first updates is missing.
        jvm.sendall(token.encode())
        jvm.shutdown(socket.SHUT_WR)
        # The server closes the connection after the error.
        assert jvm.recv(1) == b""
    server.shutdown()
    assert ("Traceback" in capfd.readouterr().err) == (token == "wrong")


def test_call_that_the_end_of_the_jvm_interrupts_is_not_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "filters", [])
    silence_py4j()
    logging.getLogger().error("Exception while sending command.")  # as Py4J does
    logging.getLogger().error("Another error")
    assert caplog.messages == ["Another error"]
