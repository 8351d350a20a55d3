"""Build the archive that brings this package to the Python workers of a cluster.

The archive is a virtual environment. Spark unpacks it beside each executor (`--archives`).
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
from dataclasses import dataclass
from importlib.metadata import distribution, requires, version
from pathlib import Path
from urllib.parse import unquote, urlparse

from purgatory_spark._output_folder import OutputExistsError
from request_purgatory.errors import InvalidArgumentError

_PACKAGE = "purgatory-spark"
#: Packages of the same checkout that it needs.
_SIBLINGS = ("request-purgatory", "purgatory-command-line")
#: What a cluster provides itself.
_SPARK = "pyspark"
#: Driver and workers exchange objects of these packages, so both sides need the same versions.
_PINNED_PACKAGES = ("numpy", "pandas", "pyarrow", "protobuf")
_SUFFIXES = (".tar.gz", ".tgz")


class ArchiveError(RuntimeError):
    """pip could not install the package into the environment; carries pip's message."""


@dataclass(frozen=True)
class Archive:
    """A packed environment; every machine that unpacks it needs an interpreter at `python`."""

    path: Path
    python: Path
    size: int


def make_archive(target: Path, *, source: str | None = None, replace: bool = False) -> Archive:
    """Pack a virtual environment with this package and its dependencies except Spark.

    pip installs a wheel into a new environment, also where this installation is an editable one.
    The unpacked environment works in any folder, through its `bin/python`. The interpreter and the
    standard library are not packed.
    """
    if not target.name.endswith(_SUFFIXES):
        raise InvalidArgumentError(
            "archive", f"a file whose name ends with {' or '.join(_SUFFIXES)}", str(target)
        )
    target = target.absolute()
    if target.is_dir() or (target.exists() and not replace):
        raise OutputExistsError(
            f"{target} exists already: choose another path, or replace the file with --force"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    try:
        with tempfile.TemporaryDirectory(prefix="purgatory-archive-") as folder:
            packages = [*map(requirement, _SIBLINGS), requirement(_PACKAGE, source)]
            python = _create_environment(Path(folder) / "env", packages)
            _pack(Path(folder) / "env", partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return Archive(target, python, target.stat().st_size)


def requirement(package: str, source: str | None = None) -> str:
    """Return the requirement by which pip is to install a package from a path or URL.

    None means the source of this installation, which PEP 610 records in `direct_url.json`, and
    without such a record the installed version from the package index.
    """
    if source is None:
        direct_url = distribution(package).read_text("direct_url.json")
        if direct_url is None:
            return f"{package}=={version(package)}"
        source = json.loads(direct_url)["url"]
        if urlparse(source).scheme == "file":
            source = unquote(urlparse(source).path)
    path = Path(source)
    if path.exists():
        return f"{package} @ {path.resolve().as_uri()}"
    return f"{package} @ {source}" if "://" in source else source


def _dependencies() -> list[str]:
    wanted = []
    for required in [
        each for package in (_PACKAGE, *_SIBLINGS) for each in requires(package) or ()
    ]:
        name = re.match(r"[\w.-]+", required)
        if name and name.group() not in (_SPARK, *_SIBLINGS) and "extra ==" not in required:
            wanted.append(required)
    return wanted


def _create_environment(environment: Path, packages: list[str]) -> Path:
    # The interpreter is linked: a copy would not find the shared libraries beside the original.
    venv.EnvBuilder(symlinks=True, with_pip=False).create(environment)
    python = environment / "bin" / "python"
    constraints = environment.with_name("constraints.txt")
    constraints.write_text(
        "".join(f"{name}=={version(name)}\n" for name in _PINNED_PACKAGES),
        encoding="utf-8",
    )
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    install = ["install", "--no-compile", "--constraint", str(constraints)]
    for wanted in (["--no-deps", *packages], _dependencies()):
        command = [*pip, "--python", str(python), *install, *wanted]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode:
            raise ArchiveError(
                f"pip could not install {', '.join(wanted)}:\n"
                f"{(finished.stderr or finished.stdout).strip()}"
            )
    return python.resolve()


def _pack(environment: Path, target: Path) -> None:
    # Console scripts are left out: they contain the path of the temporary folder. Compression
    # level 1 takes a fifth of the default level's time, and the file is a tenth larger.
    with tarfile.open(target, "w:gz", compresslevel=1) as packed:
        packed.add(environment / "pyvenv.cfg", "pyvenv.cfg")
        for script in sorted((environment / "bin").glob("python*")):
            packed.add(script, f"bin/{script.name}", filter=_without_owner)
        packed.add(environment / "lib", "lib", filter=_without_owner)


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def submit_instructions(archive: Archive) -> str:
    """Return the `spark-submit` options for the archive, and what every executor needs."""
    system = f"{platform.platform(terse=True).split('-')[0]} {platform.machine()}"
    return (
        f"spark-submit --archives {archive.path}#env --conf spark.pyspark.python=./env/bin/python "
        f"--conf spark.pyspark.driver.python={sys.executable} ...\n"
        f"needed on every executor: {system}, "
        f"Python {platform.python_version()} at {archive.python}"
    )
