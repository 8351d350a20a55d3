"""What `--version` says of the core's build."""

from __future__ import annotations

import platform

import pytest

from purgatory_command_line import version
from request_purgatory import __version__


@pytest.mark.parametrize(
    ("is_compiled", "implementation", "build"),
    [
        (True, "CPython", "compiled"),
        (False, "PyPy", "interpreted"),
        (
            False,
            "CPython",
            "interpreted, several times slower than compiled: install a C compiler, and then "
            "request-purgatory again with --force-reinstall",
        ),
    ],
)
def test_version_says_what_an_interpreted_core_costs(
    monkeypatch: pytest.MonkeyPatch, is_compiled: bool, implementation: str, build: str
) -> None:
    monkeypatch.setattr(version, "__compiled__", is_compiled)
    monkeypatch.setattr(platform, "python_implementation", lambda: implementation)
    assert version.version_text("some") == f"some {__version__}, core {build}"
