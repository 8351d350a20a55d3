"""The commands `purgatory-broker ...` on a cluster that is served."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from purgatory_broker import ClusterError, ClusterTimeoutError
from purgatory_broker._cli.printing import describe_failure
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker_command import main
from purgatory_command_line.exit_codes import ExitCode
from tests.broker.cli.serving import SERVE, TIME_LIMIT, run_command, served_cluster
from tests.broker.conftest import Connect
from tests.broker.raw_requests import produce


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
