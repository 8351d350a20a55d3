"""Finding Java, and saying what to install."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from request_purgatory.pipeline.spark import java


def fake_java(folder: Path, says: str) -> Path:
    """An executable that answers `-version` as Java would."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    command.chmod(0o755)
    return command


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('java version "1.8.0_392"', 8),
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("no such thing", None),
    ],
)
def test_version_is_read_from_what_java_says(
    tmp_path: Path, says: str, version: int | None
) -> None:
    """Old numbering and new."""
    assert java.java_version(str(fake_java(tmp_path, says))) == version


def test_command_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    """As when JAVA_HOME names another machine's Java."""
    assert java.java_version(str(tmp_path / "java")) is None


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for Spark's own launcher."""
    command = fake_java(tmp_path, 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.require_java() == str(command)


def test_old_java_is_refused_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the message says what to install."""
    fake_java(tmp_path, 'openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        java.JavaNotFoundError,
        match=r"needs Java 17 or newer, and .* is version 11\.\nInstall it with: ",
    ):
        java.require_java()


def test_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was looked for too."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(
        java.JavaNotFoundError, match=r"JAVA_HOME is .*nowhere', where there is none"
    ):
        java.require_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        java.JavaNotFoundError, match="none is on the PATH and JAVA_HOME is not set"
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
def test_hint_is_of_the_platform(
    system: str, release: dict[str, str], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package by its name there."""
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    assert hint in java.install_hint()


def test_file_runs_alone_before_anything_is_installed(tmp_path: Path) -> None:
    """The Makefile runs it with an interpreter that has no package of ours."""
    ran = subprocess.run(
        [sys.executable, "-S", "-I", java.__file__],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("Spark needs Java 17 or newer")
