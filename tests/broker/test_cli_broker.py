"""The commands `purgatory broker` and `purgatory control`."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from request_purgatory.cli.main import main
from tests.broker.parity.raw import RawClient
from tests.broker.raw_requests import produce

TIME_LIMIT = 60.0
Connect = Callable[[str], RawClient]


@contextmanager
def broker(*options: str) -> Iterator[tuple[list[str], str]]:
    """A cluster that the command runs: the nodes' addresses, and where it takes commands.

    Ended by Ctrl-C.
    """
    command = [
        sys.executable,
        "-m",
        "request_purgatory.cli.main",
        "broker",
        "--port",
        "0",
        "--control",
        "0",
        *options,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        addresses = process.stdout.readline().removeprefix("bootstrap servers: ").strip()
        control = re.search(r"control: (\S+);", process.stdout.readline())
        assert control is not None, addresses
        yield addresses.split(","), control.group(1)
    finally:
        process.send_signal(signal.SIGINT)
        told, errors = process.communicate(timeout=TIME_LIMIT)
    assert (process.returncode, errors) == (0, "")
    assert "what waited" in told


def control(capsys: pytest.CaptureFixture[str], address: str, *arguments: str) -> object:
    """What `purgatory control` prints."""
    assert main(["control", "--address", address, *arguments]) == 0
    printed = capsys.readouterr().out
    return json.loads(printed) if printed else None


def test_cluster_serves_clients_and_takes_commands(
    capsys: pytest.CaptureFixture[str], connect: Connect, tmp_path: Path
) -> None:
    """A topic of its options, its settings, faults, and a table of what waited at its end."""
    options = (
        "--nodes",
        "2",
        "--topic",
        "orders:3:2",
        "--set",
        "min.insync.replicas=2",
        "--data",
        str(tmp_path / "data"),
    )
    with broker(*options) as (addresses, where):
        assert len(addresses) == 2
        described = control(capsys, where, "describe", "orders")
        assert isinstance(described, list)
        assert [len(each["replicas"]) for each in described] == [2, 2, 2]
        client = connect(addresses[described[0]["leader"]])
        assert produce(client, "orders", b"x").error_code == 0
        assert (
            control(
                capsys, where, "fail-requests", "Produce", "NOT_ENOUGH_REPLICAS", "--times", "1"
            )
            is None
        )
        assert produce(client, "orders", b"x").error_code == 19
        assert control(capsys, where, "kill", str(1 - described[0]["leader"])) is None
        assert produce(client, "orders", b"x").error_code == 19
        metrics = control(capsys, where, "metrics")
        assert isinstance(metrics, dict)
        assert metrics[str(described[0]["leader"])]["Produce"]["Completions"] == 1
        assert main(["control", "--address", where, "freeze", "7"]) == 2
        assert "node must be between 0 and 1, got '7'" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "cluster.json",
        "lock",
        "node-0",
        "node-1",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["broker", "--nodes", "0"], 2, "nodes must be at least 1, got 0"),
        (
            ["broker", "--set", "colour=red"],
            2,
            "--set must be NAME=VALUE with a name out of .*got 'colour=red'",
        ),
        (
            ["broker", "--set", "num.partitions=many"],
            2,
            "--set num_partitions must be of the type int, got 'many'",
        ),
        (["broker", "--set", "auto.create.topics.enable=1"], 2, "of the type bool, got '1'"),
        (["broker", "--topic", "a:b"], 2, "--topic must be NAME, .* got 'a:b'"),
        (
            ["control", "--address", "nowhere", "metrics"],
            2,
            "address must be HOST:PORT, got 'nowhere'",
        ),
        (
            ["control", "--address", "127.0.0.1:1", "metrics"],
            1,
            "no cluster takes commands at 127.0.0.1:1",
        ),
    ],
)
def test_what_can_not_be_done_is_told(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    """In a line that names the value."""
    assert main(arguments) == code
    assert re.search(message, capsys.readouterr().err)


def test_missing_extra_is_named() -> None:
    """With what to install, where kafka-python is not."""
    script = "import sys; sys.modules['kafka'] = None; from request_purgatory.cli.main import main; sys.exit(main(['broker']))"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (4, "")
    assert "pip install 'request-purgatory[broker]'" in ran.stderr
