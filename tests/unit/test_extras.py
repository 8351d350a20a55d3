"""The command that installs an extra."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
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


def test_sources_that_are_not_installed_have_the_name_of_the_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on PYTHONPATH."""

    def distribution(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "distribution", distribution)
    assert extras.install_command("spark") == "pip install 'request-purgatory[spark]'"
