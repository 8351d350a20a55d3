"""Wheels, source distributions and fresh environments of the packages of a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("request-purgatory", "purgatory-command-line", "purgatory-broker", "purgatory-spark")
#: Seconds; the tests of a package in an environment of its own are the longest command.
TIME_LIMIT = 1500.0


def run(*command: str, folder: Path, **environment: str) -> str:
    """Run a command without the settings of this process' own tests; return what it prints."""
    own = ("PYTHONPATH", "PYTEST_", "REQUEST_PURGATORY_", "HYPOTHESIS_", "COVERAGE_", "SPARK_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    ran = subprocess.run(
        command,
        cwd=folder,
        env=kept | environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIME_LIMIT,
    )
    assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout[-6000:]}"
    return ran.stdout


def tracked_files(package: str) -> set[str]:
    """Return the paths of a package's files that git has, below the package."""
    folder = ROOT / "packages" / package
    names = run("git", "ls-files", folder=folder).splitlines()
    return {name for name in names if (folder / name).exists()}


def copy_package(package: str, target: Path) -> Path:
    """Copy the files of a package that git has, as they are now."""
    for name in tracked_files(package):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "packages" / package / name, target / name)
    return target


def build_wheel(folder: Path, target: Path, **environment: str) -> Path:
    """Build the wheel of a package, or of an unpacked source distribution, into `target`."""
    before = set(target.glob("*.whl"))
    pip = (sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--no-cache-dir")
    run(*pip, "--wheel-dir", str(target), str(folder), folder=folder, **environment)
    (wheel,) = set(target.glob("*.whl")) - before
    return wheel


def make_environment(folder: Path, wheels: Path, package: str) -> Path:
    """Install a package and what its tests need, and nothing else; return the interpreter."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--quiet", "--python", str(python), "install")
    group = f"{ROOT / 'packages' / package / 'pyproject.toml'}:test"
    run(*pip, "--find-links", str(wheels), package, "--group", group, folder=folder)
    return python


def installed(python: Path) -> set[str]:
    """Return the names of the packages that an environment has."""
    pip = (sys.executable, "-m", "pip", "--python", str(python), "list", "--format", "freeze")
    return {line.partition("==")[0] for line in run(*pip, folder=ROOT).splitlines()}
