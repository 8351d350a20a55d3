"""`make release` builds and tries a release, and refuses what is none."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.packaging.builds import ROOT, run

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no checkout")
VERSION = "99.0.0rc1"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a clone with the tool and the packages as they are here, committed."""
    folder = tmp_path / "checkout"
    run("git", "clone", "--quiet", str(ROOT), str(folder), folder=tmp_path)
    names = run("git", "diff", "--name-only", "--diff-filter=AM", "HEAD", folder=ROOT).splitlines()
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    author = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    run("git", "add", "--all", folder=folder)
    run("git", *author, "commit", "-q", "--allow-empty", "-m", "as it is", folder=folder)
    return folder


@pytest.mark.parametrize(
    ("version", "message"),
    [("0.3", "expected a version such as 0.3.0"), (VERSION, "fill in what only the owner knows")],
)
def test_what_is_no_release_is_refused(tool: ModuleType, version: str, message: str) -> None:
    with pytest.raises(tool.ReleaseError, match=message):
        tool.release(ROOT, version, dry_run=False)
    assert run("git", "tag", "--list", f"v{version}", folder=ROOT) == ""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dry_run_makes_files_that_install_and_leaves_the_checkout(checkout: Path) -> None:
    """The core is left interpreted: compiling it is the test of other tests."""
    for package in ("build", "twine", "towncrier", "Cython"):
        pytest.importorskip(package, reason="the group `release` is not installed")
    before = run("git", "rev-parse", "HEAD", folder=checkout)
    command = (sys.executable, "tools/release.py", VERSION, "--dry-run")
    printed = run(
        *command, folder=checkout, REQUEST_PURGATORY_BUILD="interpreted", PIP_NO_INDEX="1"
    )
    assert "fill in what only the owner knows: CITATION.cff:" in printed
    released = checkout / "build" / "release" / VERSION
    assert len(list((released / "dist").glob(f"*-{VERSION}*"))) == 8
    assert run("git", "tag", folder=released).split()[-1:] == [f"v{VERSION}"]
    changes = (released / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{VERSION}] - " in changes
    assert [path.name for path in (released / "changelog.d").iterdir()] == ["README.md"]
    assert f'version: "{VERSION}"' in (released / "CITATION.cff").read_text(encoding="utf-8")
    assert run("git", "rev-parse", "HEAD", folder=checkout) == before
    assert run("git", "tag", "--list", f"v{VERSION}", folder=checkout) == ""
    assert run("git", "status", "--porcelain", folder=checkout) == ""
