"""The wheel and the source distribution that are built of a checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import request_purgatory

ROOT = Path(__file__).parents[2]
TIME_LIMIT = 300.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no checkout"),
]


def run(*command: str, folder: Path, **environment: str) -> str:
    """Run a command, and return what it prints."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIME_LIMIT,
    ).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with the files that git has, as they are now."""
    folder = tmp_path / "checkout"
    for name in run("git", "ls-files", folder=ROOT).splitlines():
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def test_wheel_without_a_compiler_says_so(checkout: Path) -> None:
    """It is for any platform, and has the sources in Python alone."""
    pip = (sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--no-cache-dir", ".")
    run(*pip, folder=checkout, CC="false", REQUEST_PURGATORY_BUILD="")
    (wheel,) = checkout.glob("*.whl")
    version = request_purgatory.__version__
    assert wheel.name == f"request_purgatory-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        about = archive.read(f"request_purgatory-{version}.dist-info/WHEEL").decode()
        metadata = archive.read(f"request_purgatory-{version}.dist-info/METADATA").decode()
    assert "Root-Is-Purelib: true" in about
    built_from = {".pyx", ".pxd", ".h"}
    sources = {path.relative_to(checkout / "src") for path in (checkout / "src").rglob("*.*")}
    wanted = {
        path.as_posix()
        for path in sources
        if path.suffix not in built_from and ".egg-info" not in path.parts[0]
    }
    assert names == wanted
    readme = metadata.partition("\n\n")[2]
    assert readme.startswith("# request-purgatory\n")
    links = re.findall(r"\]\(([^)]*)\)", readme)
    assert [link for link in links if not link.startswith(("https:", "#"))] == []


def test_source_distribution_has_what_its_tests_need(checkout: Path) -> None:
    """All files but those for whoever works on a checkout."""
    files = set(run("git", "ls-files", folder=ROOT).splitlines())
    run(*(sys.executable, "-m", "build", "--sdist"), folder=checkout, CC="false")
    (archive,) = (checkout / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    left_out = {name for name in files - names if not name.startswith(".")}
    assert left_out == set()
