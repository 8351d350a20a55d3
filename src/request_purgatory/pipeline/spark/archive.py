"""The archive that brings this package to a cluster's Python workers.

An environment that Spark unpacks beside each.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tarfile
import tempfile
import venv
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from urllib.parse import unquote, urlparse

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.traces.output_folder import OutputExistsError

_NAME = "request-purgatory"
#: Everything but Spark itself, which a cluster has (pyproject.toml).
_EXTRA = "cluster"
#: What the driver and its workers exchange objects of: the same versions on both sides.
_SAME = ("numpy", "pandas", "pyarrow", "protobuf")
_ENDINGS = (".tar.gz", ".tgz")


class ArchiveError(RuntimeError):
    """The environment could not be made; the message is pip's."""


@dataclass(frozen=True)
class Archive:
    """A packed environment.

    Attributes:
        path: the file.
        python: the interpreter that `bin/python` in it leads to, which has to be on every machine
            that unpacks it.
        size: bytes.
    """

    path: Path
    python: Path
    size: int


def make_archive(target: Path, *, source: str | None = None, replace: bool = False) -> Archive:
    """Pack an environment with this package and all that it needs on a cluster, but Spark.

    A new virtual environment is filled from a wheel, even if the package is installed here as an
    editable one, and packed. It works wherever it is unpacked, by its `bin/python`; the interpreter
    itself and the standard library are not in it.

    Args:
        target: the `.tar.gz` to make; it appears whole or not at all.
        source: what pip installs the package from: a wheel, a checkout, or a requirement; what this
            installation was made from unless given.

    Raises:
        InvalidArgumentError: the target's ending.
        OutputExistsError: it is there already, and not to be replaced.
        ArchiveError: pip failed.
    """
    if not target.name.endswith(_ENDINGS):
        raise InvalidArgumentError(
            "archive", f"a file whose name ends with {' or '.join(_ENDINGS)}", str(target)
        )
    target = target.absolute()
    if target.is_dir() or (target.exists() and not replace):
        raise OutputExistsError(
            f"{target} exists already: choose another one, or --force to replace it"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    try:
        with tempfile.TemporaryDirectory(prefix="purgatory-archive-") as folder:
            python = _fill(Path(folder) / "env", requirement(source))
            _pack(Path(folder) / "env", partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return Archive(target, python, target.stat().st_size)


def requirement(source: str | None = None) -> str:
    """What pip is to install.

    `source`, or what this installation was made from (PEP 610), or else this version from an index.
    """
    if source is None:
        told = distribution(_NAME).read_text("direct_url.json")
        if told is None:
            return f"{_NAME}[{_EXTRA}]=={version(_NAME)}"
        source = json.loads(told)["url"]
        if urlparse(source).scheme == "file":
            source = unquote(urlparse(source).path)
    path = Path(source)
    if path.exists():
        return f"{_NAME}[{_EXTRA}] @ {path.resolve().as_uri()}"
    return f"{_NAME}[{_EXTRA}] @ {source}" if "://" in source else source


def _fill(environment: Path, wanted: str) -> Path:
    # Links, not copies: a copied interpreter does not find the libraries that lie beside the
    # original's.
    venv.EnvBuilder(symlinks=True, with_pip=False).create(environment)
    python = environment / "bin" / "python"
    constraints = environment.with_name("constraints.txt")
    constraints.write_text(
        "".join(f"{name}=={found}\n" for name, found in _installed().items()), encoding="utf-8"
    )
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--quiet",
        "--python",
        str(python),
    ]
    command += ["install", "--no-compile", "--constraint", str(constraints), wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ArchiveError(
            f"pip could not install {wanted}:\n{(done.stderr or done.stdout).strip()}"
        )
    return python.resolve()


def _installed() -> dict[str, str]:
    found = {}
    for name in _SAME:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _pack(environment: Path, target: Path) -> None:
    # Its scripts name the folder that it was made in. The least compression is five times as fast
    # as the usual, for a tenth more.
    with tarfile.open(target, "w:gz", compresslevel=1) as packed:
        packed.add(environment / "pyvenv.cfg", "pyvenv.cfg")
        for script in sorted((environment / "bin").glob("python*")):
            packed.add(script, f"bin/{script.name}", filter=_without_owner)
        packed.add(environment / "lib", "lib", filter=_without_owner)


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def usage(archive: Archive) -> str:
    """How to submit with the archive, in a few lines."""
    return (
        f"spark-submit --archives {archive.path}#env --conf spark.pyspark.python=./env/bin/python "
        f"--conf spark.pyspark.driver.python={sys.executable} ...\n"
        f"needed on every executor: {platform.platform(terse=True).split('-')[0]} {platform.machine()}, "
        f"Python {platform.python_version()} at {archive.python}"
    )
