"""The command that installs an extra."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest

from request_purgatory import extras


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'request-purgatory[broker]'"),
        (
            {"url": "file:///home/me/a%20b", "dir_info": {"editable": True}},
            "pip install --editable '/home/me/a b[broker]'",
        ),
        ({"url": "file:///home/me/a", "dir_info": {}}, "pip install '/home/me/a[broker]'"),
        (
            {"url": "file:///tmp/request_purgatory-1-py3-none-any.whl", "archive_info": {}},
            "pip install '/tmp/request_purgatory-1-py3-none-any.whl[broker]'",
        ),
        (
            {"url": "https://example.com/p.whl", "archive_info": {}},
            "pip install 'request-purgatory[broker] @ https://example.com/p.whl'",
        ),
        (
            {"url": "https://example.com/p.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'request-purgatory[broker] @ git+https://example.com/p.git@abc'",
        ),
    ],
    ids=["index", "editable", "folder", "wheel", "remote wheel", "git"],
)
def test_command_names_where_the_package_came_from(
    monkeypatch: pytest.MonkeyPatch, origin: dict[str, object] | None, command: str
) -> None:
    """As pip has noted it."""
    noted = None if origin is None else json.dumps(origin)
    found = SimpleNamespace(read_text={"direct_url.json": noted}.get)
    monkeypatch.setattr(extras, "distribution", lambda name: found)
    assert extras.install_command("broker") == command


@pytest.mark.parametrize("is_checkout", [True, False])
def test_sources_that_are_not_installed_are_named_by_their_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_checkout: bool
) -> None:
    """As on PYTHONPATH. Without a checkout only the package index is left."""

    def distribution(name: str) -> None:
        raise PackageNotFoundError(name)

    if is_checkout:
        (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(extras, "distribution", distribution)
    monkeypatch.setattr(extras, "__file__", str(tmp_path / "src" / "request_purgatory" / "x.py"))
    needed = tmp_path if is_checkout else "request-purgatory"
    assert extras.install_command("spark") == f"pip install '{needed}[spark]'"


@pytest.mark.parametrize(
    ("package", "use", "extra"),
    [
        ("kafka", "from request_purgatory.broker import Cluster", "broker"),
        ("crc32c", "import request_purgatory.broker", "broker"),
        ("pyspark", "from request_purgatory.pipeline import Trace", "spark"),
        ("pyspark", "import request_purgatory.pipeline.stream", "spark"),
    ],
)
def test_import_that_needs_an_extra_says_how_to_install_it(
    package: str, use: str, extra: str
) -> None:
    """The name of a module, such as `kafka`, is not what to install."""
    blocked = f"import sys; sys.modules[{package!r}] = None; {use}"
    ran = subprocess.run(
        [sys.executable, "-c", blocked], capture_output=True, text=True, timeout=60, check=False
    )
    last = ran.stderr.splitlines()[-1]
    needed = f"the Python package {package!r} is not installed: {extras.install_command(extra)}"
    assert last == f"ModuleNotFoundError: {needed}"
