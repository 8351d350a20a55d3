"""The commands `purgatory-broker ...`."""

from __future__ import annotations

import gc
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker import ClusterError, ClusterTimeoutError
from purgatory_broker._cli.printing import describe_failure
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster import async_cluster
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker_command import main
from purgatory_command_line.exit_codes import ExitCode
from tests.broker.conftest import Connect
from tests.broker.raw_requests import produce
from tests.support.live_page import LivePage, port_of, press

TIME_LIMIT = 60.0
SERVE = (
    *(sys.executable, "-m", "purgatory_broker", "serve"),
    *("--port", "0", "--control", "0"),
)


@contextmanager
def served_cluster(*options: str) -> Iterator[tuple[list[str], str]]:
    """Run `purgatory-broker serve`; return the nodes' addresses and the control address."""
    process = subprocess.Popen(
        [*SERVE, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        addresses = process.stdout.readline().removeprefix("bootstrap servers: ").strip()
        control = re.search(r"control: (\S+);", process.stdout.readline())
        assert control is not None, addresses
        yield addresses.split(","), control.group(1)
    finally:
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=TIME_LIMIT)
    assert (process.returncode, errors) == (ExitCode.INTERRUPTED, "")
    assert "purgatories" in printed


def run_command(capsys: pytest.CaptureFixture[str], control: str, *arguments: str) -> Any:
    """Run a command on a served cluster, and return its result."""
    assert main([*arguments, "--control", control, "--json"]) == 0
    printed = capsys.readouterr().out
    return json.loads(printed) if printed else None


def test_served_cluster_serves_clients_and_runs_commands(
    capsys: pytest.CaptureFixture[str], connect: Connect, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    options = ("--nodes", "2", "--topic", "orders:3:2", "--min-insync-replicas", "2")
    with served_cluster(*options, "--data-dir", str(data_dir)) as (addresses, control):
        assert len(addresses) == 2
        described = run_command(capsys, control, "describe-topic", "orders")
        assert [len(each["replicas"]) for each in described] == [2, 2, 2]
        leader = described[0]["leader"]
        client = connect(addresses[leader])
        assert produce(client, "orders", b"x").error_code == 0
        fault = ("inject-request-error", "Produce", "NOT_ENOUGH_REPLICAS", "--times", "1")
        assert run_command(capsys, control, *fault) == 1
        assert produce(client, "orders", b"x").error_code == 19
        assert run_command(capsys, control, "inject-request-error", "Produce", "56") == 2
        assert produce(client, "orders", b"x").error_code == 56
        assert run_command(capsys, control, "kill", str(1 - leader)) is None
        assert produce(client, "orders", b"x").error_code == 19
        metrics = run_command(capsys, control, "metrics")
        assert metrics[str(leader)]["Produce"]["Completions"] == 1
        assert main(["pause-replication", "7", "--control", control]) == 2
        assert "node must be between 0 and 1, got 7" in capsys.readouterr().err
    assert sorted(path.name for path in data_dir.iterdir()) == [
        "cluster.json",
        "lock",
        "node-0",
        "node-1",
    ]


@pytest.mark.slow
def test_existing_topic_of_another_size_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data_dir = ("--data-dir", str(tmp_path))
    with served_cluster("--nodes", "2", "--topic", "t:2:2", *data_dir):
        pass
    for topic in ("t", "t:2", "t:2:2"):
        with served_cluster("--nodes", "2", "--topic", topic, *data_dir) as (_, control):
            assert len(run_command(capsys, control, "describe-topic", "t")) == 2
    for topics, message in (
        (["t:5"], "the number of partitions of the existing topic 't' must be 2, got 5"),
        (["t:1"], "the number of partitions of the existing topic 't' must be 2, got 1"),
        (["t:2:1"], "the number of replicas of the existing topic 't' must be 2, got 1"),
        (["new:1", "new:2"], "partitions of the existing topic 'new' must be 1, got 2"),
    ):
        options = [option for topic in topics for option in ("--topic", topic)]
        ran = subprocess.run(
            [*SERVE, "--nodes", "2", *options, *data_dir],
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=False,
        )
        assert ran.returncode == ExitCode.BAD_INPUT
        assert message in ran.stderr


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


def test_command_that_the_cluster_refuses_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with served_cluster("--nodes", "2", "--topic", "orders:1:2") as (_, control):
        for arguments, message in (
            (["describe-topic", "nope"], "there is no topic 'nope'"),
            (["move-leader", "orders", "9", "0"], "there is no partition orders-9"),
            (["create-topic", "orders"], "Topic 'orders' already exists"),
            (["truncate", "orders", "--offset", "99"], "is above its high watermark"),
            (["compact", "orders"], "orders has cleanup.policy=delete, not compact"),
        ):
            assert main([*arguments, "--control", control]) == ExitCode.BAD_INPUT, arguments
            assert message in " ".join(capsys.readouterr().err.split())
    assert main(["describe-topic", "orders", "--control", control]) == ExitCode.FAILED


@pytest.mark.parametrize(
    "error",
    [
        ClusterError("there is no control server"),
        ClusterTimeoutError("no leader in 5 s"),
        ClusterError("a follower has not deleted its records", "REQUEST_TIMED_OUT"),
        ClusterError("the metadata can't be stored", "KAFKA_STORAGE_ERROR"),
        ControllerError(ErrorCode.KAFKA_STORAGE_ERROR, "the metadata can't be stored"),
    ],
)
def test_failure_of_a_cluster_is_no_refusal(error: Exception) -> None:
    assert describe_failure(error) == (ExitCode.FAILED, str(error))


def test_results_are_tables_unless_json_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with served_cluster("--nodes", "2", "--topic", "orders:1:2") as (_, control):
        assert main(["describe-topic", "orders", "--control", control]) == ExitCode.OK
        topic = capsys.readouterr().out
        assert main(["metrics", "--control", control]) == ExitCode.OK
        metrics = capsys.readouterr().out
        fault = ["inject-request-error", "Fetch", "56", "--topic", "orders", "--times", "none"]
        assert main([*fault, "--control", control]) == ExitCode.OK
        assert capsys.readouterr().out == "fault 1\n"
        assert main(["faults", "--control", control]) == ExitCode.OK
        faults = capsys.readouterr().out
    assert "KAFKA_STORAGE_ERROR" in faults
    assert "topic orders" in faults
    assert "high watermark" in topic
    assert topic.count("yes") == 2
    assert "waiting" in metrics


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["serve", "--nodes", "0"], 2, "nodes must be at least 1, got 0"),
        (["serve", "--colour", "red"], 2, "Unknown option: --colour"),
        (
            ["serve", "--num-partitions", "many"],
            2,
            "--num-partitions: expected a whole number, got 'many'",
        ),
        (["serve", "--topic", "a:b"], 2, "expected NAME, NAME:PARTITIONS or .* got 'a:b'"),
        (["metrics", "--control", "nowhere"], 2, "control must be host:port, got 'nowhere'"),
        (["metrics", "--control", "127.0.0.1:1"], 1, "no control server at 127.0.0.1:1"),
    ],
)
def test_invalid_command_line_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert main([*arguments]) == code
    assert re.search(message, " ".join(capsys.readouterr().err.split()))


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


def test_records_and_waits_on_the_command_line(
    capsys: pytest.CaptureFixture[str], connect: Connect
) -> None:
    with served_cluster("--nodes", "2", "--topic", "orders:1:2") as (addresses, control):
        waiting = ["wait-for", "--control", control, "--timeout", "0.05"]
        assert main([*waiting, "--isr", "orders:0:1,0"]) == ExitCode.OK
        assert main([*waiting, "--records", "orders:1"]) == ExitCode.FAILED
        assert "expected 1 records in orders, got 0" in capsys.readouterr().err
        assert main([*waiting, "--isr", "orders:0"]) == ExitCode.BAD_INPUT
        assert "expected 3 values with colons between them" in capsys.readouterr().err
        assert run_command(capsys, control, "records", "orders") == []
        assert run_command(capsys, control, "high-watermark", "orders") == 0
        assert run_command(capsys, control, "groups") == {}
        assert run_command(capsys, control, "transactions") == {}
        assert main([*waiting, "--transaction", "shop:Ongoing"]) == ExitCode.FAILED
        assert "expected transaction 'shop' to be Ongoing" in capsys.readouterr().err
        assert main([*waiting, "--transaction", "shop:Nope"]) == ExitCode.BAD_INPUT
        assert "a state of Empty, Ongoing" in capsys.readouterr().err
        assert main(["fence-producer", "shop", "--control", control]) == ExitCode.BAD_INPUT
        assert "no producer has begun with 'shop'" in capsys.readouterr().err
        assert run_command(capsys, control, "requests", "--api", "Produce") == []
        assert main([*waiting, "--request", "Produce:1"]) == ExitCode.FAILED
        assert run_command(capsys, control, "forget-requests") is None
        fault = run_command(capsys, control, "inject-request-error", "Metadata", "56")
        capsys.readouterr()
        assert main([*waiting, "--fault", f"{fault}:1"]) == ExitCode.FAILED
        assert f"expected 1 hits of fault {fault}, got 0 (" in capsys.readouterr().err
        client = connect(addresses[0])
        client.call("Metadata", 4, topics=[{"name": "orders"}])
        assert main([*waiting, "--fault", f"{fault}:1"]) == ExitCode.OK
        leader = run_command(capsys, control, "describe-topic", "orders")[0]["leader"]
        produce(connect(addresses[leader]), "orders", b"a", b"b", b"c")
        found = run_command(
            capsys,
            control,
            "records",
            "orders",
            "--offset",
            "-2",
            "--limit",
            "1",
            "--partition",
            "0",
        )
        assert [each["value"] for each in found] == ["b"]


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
