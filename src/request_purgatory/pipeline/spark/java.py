"""Finds the Java that Spark needs, or says what to install.

Uses the standard library only and imports nothing of this package, so the Makefile can run this
very file before there is a virtual environment.
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

_PACKAGES = {
    "debian": "sudo apt-get install openjdk-17-jre-headless   (or default-jre-headless, if that is 17 or newer)",
    "fedora": "sudo dnf install java-latest-openjdk-headless",
    "suse": "sudo zypper install java-21-openjdk-headless",
    "arch": "sudo pacman -S jre21-openjdk-headless",
    "alpine": "sudo apk add openjdk21-jre-headless",
    "Darwin": "brew install openjdk@21, then: export JAVA_HOME=$(brew --prefix openjdk@21)",
    "Windows": "winget install EclipseAdoptium.Temurin.21.JRE",
}


class JavaNotFoundError(RuntimeError):
    """No Java of a version that Spark runs on."""


def java_command() -> str | None:
    """The `java` that Spark's launcher would start.

    That of JAVA_HOME, or else the first on the PATH.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        command = Path(home) / "bin" / ("java.exe" if os.name == "nt" else "java")
        return str(command) if command.exists() else None
    return shutil.which("java")


def java_version(command: str) -> int | None:
    """The major version that `command -version` reports.

    None if it can't be run or says nothing known.
    """
    try:
        answer = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None


def install_hint() -> str:
    """What to type to install a Java that serves, on this platform."""
    if platform.system() != "Linux":
        return _PACKAGES.get(
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
        if family in _PACKAGES:
            return _PACKAGES[family]
    return "; ".join(
        f"{name}: {_PACKAGES[name]}" for name in ("debian", "fedora", "suse", "arch", "alpine")
    )


def require_java() -> str:
    """The Java command to use.

    JavaNotFoundError, which says what to install, if there is none of version 17 or newer.
    """
    command = java_command()
    if command is None:
        home = os.environ.get("JAVA_HOME")
        found = (
            f"JAVA_HOME is {home!r}, where there is none"
            if home
            else "none is on the PATH and JAVA_HOME is not set"
        )
    else:
        version = java_version(command)
        if version is not None and version >= MINIMUM_VERSION:
            return command
        found = f"{command} is version {version}" if version else f"{command} does not run"
    raise JavaNotFoundError(
        f"Spark needs Java {MINIMUM_VERSION} or newer, and {found}.\nInstall it with: {install_hint()}"
    )


if __name__ == "__main__":
    try:
        require_java()
    except JavaNotFoundError as missing:
        sys.exit(str(missing))
