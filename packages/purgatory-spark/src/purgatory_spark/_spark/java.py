"""Find the Java runtime that Spark needs, or explain what to install.

This file uses the standard library only and imports nothing of this package: the Makefile runs it
before a virtual environment exists.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

MINIMUM_VERSION = 17
#: The versions that the tests ran on; others from `MINIMUM_VERSION` on are not refused.
TESTED_VERSIONS = (17, 21, 25)

_INSTALL_COMMANDS = {
    "debian": (
        "sudo apt-get install openjdk-17-jre-headless   "
        "(or default-jre-headless, if that is 17 or newer)"
    ),
    "fedora": "sudo dnf install java-latest-openjdk-headless",
    "suse": "sudo zypper install java-21-openjdk-headless",
    "arch": "sudo pacman -S jre21-openjdk-headless",
    "alpine": "sudo apk add openjdk21-jre-headless",
    "Darwin": "brew install openjdk@21, then: export JAVA_HOME=$(brew --prefix openjdk@21)",
    "Windows": "winget install EclipseAdoptium.Temurin.21.JRE",
}


class JavaNotFoundError(RuntimeError):
    """No Java runtime of a version that Spark supports was found."""


def java_command() -> str | None:
    """Return the path of the `java` that Spark's launcher would start, or None without one.

    JAVA_HOME takes precedence over PATH, as in Spark's `bin/spark-class`.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        command = Path(home) / "bin" / ("java.exe" if os.name == "nt" else "java")
        return str(command) if command.exists() else None
    return shutil.which("java")


def java_version(command: str) -> int | None:
    """Return the major version that `command -version` reports, or None."""
    try:
        output = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # Up to Java 8 the version was written "1.8".
    match = re.search(r'version "(?:1\.)?(\d+)', output.stderr + output.stdout)
    return int(match.group(1)) if match else None


def install_hint() -> str:
    if platform.system() != "Linux":
        return _INSTALL_COMMANDS.get(
            platform.system(), f"install a Java {MINIMUM_VERSION}+ runtime and set JAVA_HOME to it"
        )
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    for name in [release.get("ID", ""), *release.get("ID_LIKE", "").split()]:
        family = {"ubuntu": "debian", "rhel": "fedora", "centos": "fedora", "opensuse": "suse"}.get(
            name, name
        )
        if family in _INSTALL_COMMANDS:
            return _INSTALL_COMMANDS[family]
    return "; ".join(
        f"{name}: {_INSTALL_COMMANDS[name]}"
        for name in ("debian", "fedora", "suse", "arch", "alpine")
    )


def require_java() -> str:
    """Return the path of a Java runtime of version 17 or newer."""
    command = java_command()
    if command is None:
        home = os.environ.get("JAVA_HOME")
        problem = (
            f"JAVA_HOME={home!r} has no bin/java"
            if home
            else "java is not on the PATH and JAVA_HOME is not set"
        )
    else:
        version = java_version(command)
        if version is not None and version >= MINIMUM_VERSION:
            return command
        problem = f"{command} is version {version}" if version else f"{command} does not run"
    raise JavaNotFoundError(
        f"Spark needs Java {MINIMUM_VERSION} or newer (tested with "
        f"{', '.join(map(str, TESTED_VERSIONS))}), but {problem}.\n"
        f"Install it with: {install_hint()}"
    )


if __name__ == "__main__":
    try:
        require_java()
    except JavaNotFoundError as missing:
        sys.exit(str(missing))
