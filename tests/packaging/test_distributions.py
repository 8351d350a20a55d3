"""The wheels and the source distributions that are built of a checkout."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.packaging.builds import PACKAGES, ROOT, build_wheel, copy_package, run, tracked_files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no checkout"),
]


@pytest.mark.parametrize("package", PACKAGES)
def test_pure_wheel_has_the_sources_in_python_alone(package: str, tmp_path: Path) -> None:
    """The core's, too, where there is no compiler."""
    checkout = copy_package(package, tmp_path / "checkout")
    wheel = build_wheel(checkout, tmp_path, CC="false")
    name = package.replace("-", "_")
    assert wheel.name == f"{name}-{version(package)}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        about = archive.read(f"{name}-{version(package)}.dist-info/METADATA").decode()
    assert names == {
        path.removeprefix("src/")
        for path in tracked_files(package)
        if path.startswith("src/") and not path.endswith((".pyx", ".pxd", ".h"))
    }
    readme = about.partition("\n\n")[2]
    assert readme.startswith(f"# {package}\n")
    assert len(readme.splitlines()) < 50
    assert re.findall(r"\]\((?!https:|#)[^)]*\)", readme) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_source_distribution_has_all_that_git_has(package: str, tmp_path: Path) -> None:
    """Another wheel can be built of it, and the core's tests come with it."""
    checkout = copy_package(package, tmp_path / "checkout")
    run(*(sys.executable, "-m", "build", "--sdist", "--outdir", str(tmp_path)), folder=checkout)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
        opened.extractall(tmp_path / "unpacked", filter="data")
    wanted = tracked_files(package)
    if package != "request-purgatory":
        # They use parts of the core's tests, which only a checkout has.
        wanted = {name for name in wanted if not name.startswith("tests/")}
    assert wanted - names == set()
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert build_wheel(unpacked, tmp_path, REQUEST_PURGATORY_BUILD="interpreted").exists()
