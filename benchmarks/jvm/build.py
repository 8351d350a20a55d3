"""The JVM peers of the benchmark: builds the harness beside this file and runs it."""

import hashlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
POM = SOURCES / "pom.xml"
BUILD_TIMEOUT_S = 300
DEFAULT_HEAP_MB = 2048
#: The lines of Maven's output that an error message has: the failure is first, then general advice.
REASON_LINES = 5
#: Terminal colours; Maven resets them at its start even where it writes none.
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class PeerUnavailableError(Exception):
    """The peers cannot be built or run on this machine."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the JVM peers are not available: {reason}")
        self.reason = reason


@dataclass(frozen=True)
class JvmPeers:
    """The built harness.

    Attributes:
        directory: The directory of its classes and the peers' jars.
        java: The path of the `java` that runs the harness.
        versions: The versions of the peers and of Java, by name.
    """

    directory: Path
    java: str
    versions: Mapping[str, str]

    def command(self, question: str, side: str, params: Mapping[str, object]) -> list[str]:
        """Return the command that measures a question for a side and prints one line of JSON.

        Args:
            question: The question's name.
            side: `kafka` or `netty`.
            params: The question's parameters; `heap_mb` is the JVM's maximum heap instead.
        """
        heap_mb = params.get("heap_mb", DEFAULT_HEAP_MB)
        arguments = [f"{name}={value}" for name, value in params.items() if name != "heap_mb"]
        class_path = f"{self.directory / 'classes'}:{self.directory / 'lib'}/*"
        # G1 is the default only on machines that the JVM considers large. The ratio prevents the
        # explicit collections before a measurement from shrinking the heap. Growing it again would
        # be measured, and costs three times as much as adding a task.
        options = [f"-Xmx{heap_mb}m", "-XX:+UseG1GC", "-XX:MaxHeapFreeRatio=100", "-cp", class_path]
        return [self.java, *options, "requestpurgatory.bench.Main", question, side, *arguments]


def build(target: Path) -> JvmPeers:
    """Build the harness and download the peers' jars into `target`, unless that is done already.

    Args:
        target: The directory to build in.

    Returns:
        The built harness.

    Raises:
        PeerUnavailableError: A tool is missing, or Maven fails.
    """
    tools = {name: _tool(name) for name in ("java", "javac", "mvn")}
    target = target.resolve()
    stamp = target / "built-from"
    fingerprint = _fingerprint()
    if not stamp.exists() or stamp.read_text() != fingerprint:
        # Files of an earlier version must not get onto the class path.
        for stale in ("classes", "lib"):
            shutil.rmtree(target / stale, ignore_errors=True)
        stamp.unlink(missing_ok=True)
        _maven(tools["mvn"], target)
        stamp.write_text(fingerprint)
    return JvmPeers(target, tools["java"], _versions(tools["java"]))


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise PeerUnavailableError(f"{name} is not on the PATH")
    return path


def _fingerprint() -> str:
    """Return a hash of all files that the build depends on."""
    digest = hashlib.sha256()
    for path in [POM, *sorted((SOURCES / "src").rglob("*.java"))]:
        digest.update(f"{path.relative_to(SOURCES)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _maven(mvn: str, target: Path) -> None:
    command = [
        mvn,
        "-B",
        "-q",
        "-ntp",
        "-f",
        str(POM),
        f"-DoutputDirectory={target}",
        "process-classes",
    ]
    target.mkdir(parents=True, exist_ok=True)
    try:
        result = subprocess.run(
            command,
            timeout=BUILD_TIMEOUT_S,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired:
        raise PeerUnavailableError(f"mvn did not finish within {BUILD_TIMEOUT_S} s") from None
    if result.returncode != 0:
        lines = [line for line in COLOUR.sub("", result.stdout).splitlines() if line.strip()]
        reason = "\n".join(lines[:REASON_LINES])
        raise PeerUnavailableError(f"mvn failed with exit code {result.returncode}:\n{reason}")


def _versions(java: str) -> dict[str, str]:
    pom = ElementTree.parse(POM)
    versions = {}
    for name, element in (
        ("kafka-server-common", "kafka.version"),
        ("netty-common", "netty.version"),
    ):
        version = pom.findtext(f".//{{*}}properties/{{*}}{element}")
        if version is None:
            raise PeerUnavailableError(f"{POM} does not name {element}")
        versions[name] = version
    # The first line is of the form: openjdk 17.0.15 2025-04-15
    lines = subprocess.run([java, "--version"], check=True, text=True, capture_output=True).stdout
    versions["java"] = lines.split()[1]
    return versions
