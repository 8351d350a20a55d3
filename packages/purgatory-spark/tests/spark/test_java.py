"""Tests of finding Java and of the hints for installing it."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from purgatory_spark._spark import java


def fake_java(folder: Path, output: str) -> Path:
    """Write an executable that prints `output` to stderr, as `java -version` does."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    command.chmod(0o755)
    return command


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('java version "1.8.0_392"', 8),
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("no such thing", None),
    ],
)
def test_version_is_parsed(tmp_path: Path, output: str, version: int | None) -> None:
    assert java.java_version(str(fake_java(tmp_path, output))) == version


def test_command_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java.java_version(str(tmp_path / "java")) is None


def test_java_home_takes_precedence_over_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = fake_java(tmp_path, 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.require_java() == str(command)


def test_old_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, 'openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        java.JavaNotFoundError,
        match=r"needs Java 17 or newer \(tested with 17, 21, 25\), but .* is version 11\.\n"
        "Install it with: ",
    ):
        java.require_java()


def test_missing_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(java.JavaNotFoundError, match=r"JAVA_HOME='.*nowhere' has no bin/java"):
        java.require_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        java.JavaNotFoundError, match="java is not on the PATH and JAVA_HOME is not set"
    ):
        java.require_java()


@pytest.mark.parametrize(
    ("system", "release", "hint"),
    [
        ("Linux", {"ID": "debian"}, "apt-get install openjdk-17-jre-headless"),
        ("Linux", {"ID": "ubuntu", "ID_LIKE": "debian"}, "apt-get install openjdk-17-jre-headless"),
        (
            "Linux",
            {"ID": "rocky", "ID_LIKE": "rhel centos fedora"},
            "dnf install java-latest-openjdk-headless",
        ),
        ("Linux", {"ID": "alpine"}, "apk add openjdk21-jre-headless"),
        ("Linux", {"ID": "something-else"}, "debian: sudo apt-get"),
        ("Darwin", {}, "brew install openjdk@21"),
        ("Windows", {}, "winget install"),
        ("Plan9", {}, "set JAVA_HOME"),
    ],
)
def test_install_hint_depends_on_the_platform(
    system: str, release: dict[str, str], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    assert hint in java.install_hint()


def test_module_runs_as_a_script_without_dependencies(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-S", "-I", java.__file__],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith("Spark needs Java 17 or newer")
