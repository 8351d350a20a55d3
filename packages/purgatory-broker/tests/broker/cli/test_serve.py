"""`purgatory-broker serve`: its options, what it prints, and how it ends."""

from __future__ import annotations

import gc
import json
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from purgatory_broker.cluster import async_cluster
from purgatory_broker_command import main
from purgatory_command_line.exit_codes import ExitCode
from tests.broker.cli.serving import SERVE, TIME_LIMIT, run_command
from tests.broker.conftest import Connect
from tests.support.live_page import LivePage, port_of, press


def test_served_cluster_prints_its_addresses_as_json_and_stops_on_sigterm() -> None:
    process = subprocess.Popen(
        [*SERVE, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    addresses = json.loads(process.stdout.readline())
    process.terminate()
    rest, _ = process.communicate(timeout=TIME_LIMIT)
    assert sorted(addresses) == ["bootstrap_servers", "control"]
    assert (process.returncode, rest) == (ExitCode.TERMINATED, "")


def test_served_cluster_serves_metrics_a_registry_and_a_live_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pages = ("--metrics-listen", "0", "--dashboard", "0", "--schema-registry", "0")
    with subprocess.Popen(
        [*SERVE, "--json", "--topic", "orders", *pages],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        served = json.loads(process.stdout.readline())
        assert sorted(served) == [
            "bootstrap_servers",
            "control",
            "dashboard",
            "metrics",
            "schema_registry",
        ]
        with urllib.request.urlopen(
            f"{served['schema_registry']}/subjects", timeout=TIME_LIMIT
        ) as response:
            assert response.read() == b"[]"
        assert (
            run_command(capsys, served["control"], "start-schema-registry")
            == (served["schema_registry"])
        )
        with urllib.request.urlopen(served["metrics"], timeout=TIME_LIMIT) as response:
            assert 'purgatory_pending{purgatory="Produce-0"} 0.0' in response.read().decode()
        port = port_of(served["dashboard"])
        with LivePage(port) as page:
            assert "NOT_ENOUGH_REPLICAS" in page.hello["about"]["panels"]["broker"]["errors"]
            panel = page.hello["now"]["panels"]["broker"]
            assert [each["topic"] for each in panel["partitions"]] == ["_schemas", "orders"]
            fault = {"api": "Produce", "error": "NOT_ENOUGH_REPLICAS"}
            assert press(port, "broker", "inject_request_error", fault) == (200, {"result": 1})
            (listed,) = run_command(capsys, served["control"], "faults")
            assert (listed["api"], listed["error"]) == ("Produce", "NOT_ENOUGH_REPLICAS")
            process.terminate()
            assert page.ends()
        printed, _ = process.communicate(timeout=TIME_LIMIT)
    assert (process.returncode, printed) == (ExitCode.TERMINATED, "")


@pytest.mark.slow
@pytest.mark.parametrize(("option", "other"), [("--port", "--control"), ("--control", "--port")])
def test_taken_port_names_the_options_that_choose_another(option: str, other: str) -> None:
    """The default ports are those of a Kafka that may run on the same machine."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = subprocess.run(
            [*SERVE[:-4], option, port, other, "0"],
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=False,
        )
    assert (ran.returncode, ran.stdout) == (ExitCode.FAILED, "")
    assert port in ran.stderr
    assert ran.stderr.endswith("; --port and --control choose others, 0 free ones\n")


@pytest.mark.slow
def test_page_at_a_taken_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = subprocess.run(
            [*SERVE, "--dashboard", port],
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=False,
        )
    assert (ran.returncode, ran.stdout) == (ExitCode.BAD_INPUT, "")
    assert "port must be free on 127.0.0.1" in ran.stderr
    assert port in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "options", "needed"),
    [
        ("crc32c", [], "the Python package 'crc32c' is not installed"),
        ("pyarrow", ["--record", "traffic"], "pip install pyarrow"),
        (
            "prometheus_client",
            ["--metrics-listen", "0"],
            "the Python package 'prometheus_client' is not installed",
        ),
    ],
)
def test_missing_package_is_named(
    tmp_path: Path, package: str, options: list[str], needed: str
) -> None:
    serve = [*SERVE[3:], *options]
    script = (
        f"import sys; sys.modules[{package!r}] = None;"
        f"from purgatory_broker_command import main; sys.exit(main({serve}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (ExitCode.MISSING_DEPENDENCY, "")
    assert ran.stderr.endswith(f"{needed}\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    [
        f"from purgatory_broker_command import main; main({[*SERVE[3:]]})",
        "from purgatory_broker.cluster.process_main import main; main()",
    ],
    ids=["served", "ClusterProcess"],
)
def test_process_of_a_cluster_collects_cycles_less_often(start: str) -> None:
    # The process says how it collects in place of running the cluster.
    script = f"""
import asyncio, atexit, gc

def say(serving=None):
    print(gc.get_threshold()[0], gc.get_freeze_count() > 10_000, flush=True)
    if serving is not None:
        serving.close()
        raise SystemExit

asyncio.run = say
atexit.register(say)
{start}
"""
    ran = subprocess.run(
        [sys.executable, "-c", script],
        input='{"settings": {"nodes": 1}, "record": null}\n',
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        check=False,
    )
    usual = gc.get_threshold()[0]
    assert ran.stdout == f"{async_cluster.THRESHOLD} True\n{usual} False\n", ran.stderr


def test_served_cluster_has_users_and_listeners(
    capsys: pytest.CaptureFixture[str], connect: Connect
) -> None:
    command = [each for each in SERVE if each not in ("--port",)]
    command.remove("0")
    listeners = "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"
    options = ("--listeners", listeners, "--sasl-user", "alice:se:cret", "--sasl-user", "bob:b")
    process = subprocess.Popen(
        [*command, "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        served = json.loads(process.stdout.readline())
        for token, error in ((b"\0alice\0se:cret", 0), (b"\0bob\0b", 0), (b"\0bob\0alice", 58)):
            client = connect(served["bootstrap_servers"])
            assert client.call("SaslHandshake", 1, mechanism="PLAIN").error_code == 0
            assert client.call("SaslAuthenticate", 2, auth_bytes=token).error_code == error
        found = ["bootstrap-servers-of", "PLAINTEXT", "--control", served["control"]]
        assert main([*found]) == ExitCode.OK
        other = capsys.readouterr().out.strip()
        assert connect(other).call("Metadata", 9, topics=[]).brokers
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=TIME_LIMIT)
    assert "WARNING" not in errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sasl-user", "alice"), "expected NAME:PASSWORD"),
        (("--sasl-user", ":hush"), "expected NAME:PASSWORD"),
        (("--sasl-user", "alice:hush", "--sasl-user", "alice:hush"), "expected 'alice' once"),
        (("--listeners", "PLAINTEXT://127.0.0.1:0", "--port", "9092"), "left out with listeners"),
        (("--host", "0.0.0.0"), "advertised_listeners must be given"),
    ],
)
def test_invalid_options_of_listeners_are_refused(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *options]) == ExitCode.BAD_INPUT
    printed = capsys.readouterr()
    assert message in " ".join((printed.out + printed.err).split())
    assert "hush" not in printed.out + printed.err


@pytest.mark.slow
def test_address_that_other_machines_reach_is_warned_of() -> None:
    ran = subprocess.run(
        [*SERVE, "--nodes", "2", "--host", "192.0.2.1"],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        check=False,
    )
    assert ran.returncode == ExitCode.FAILED
    assert ran.stderr.count("other machines can connect") == 1
    assert "PLAINTEXT on 192.0.2.1:0 is not encrypted, and clients are not" in ran.stderr
