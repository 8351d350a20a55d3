"""How to install an extra of this package, for messages that ask for one."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

_NAME = "request-purgatory"


def install_command(extra: str) -> str:
    """Return the command that adds an extra to the installation in use.

    Without a release on the package index, only the place that the package came from has it. pip
    notes that place, a checkout or a wheel, but not for packages from an index
    (https://packaging.python.org/en/latest/specifications/direct-url/).

    Args:
        extra: Its name.

    Returns:
        A command for a shell.
    """
    try:
        noted = distribution(_NAME).read_text("direct_url.json")
        origin: dict[str, Any] = json.loads(noted) if noted else {}
    except PackageNotFoundError:  # The sources are on the path, and nothing is installed.
        checkout = Path(__file__).parents[2]
        is_checkout = (checkout / "pyproject.toml").exists()
        origin = {"url": checkout.as_uri()} if is_checkout else {}
    url = str(origin.get("url", ""))
    needed = f"{_NAME}[{extra}]"
    if url.startswith("file://"):
        needed = f"{url2pathname(urlsplit(url).path)}[{extra}]"
    elif vcs := origin.get("vcs_info"):
        needed += f" @ {vcs['vcs']}+{url}@{vcs['commit_id']}"
    elif url:
        needed += f" @ {url}"
    option = "--editable " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {option}'{needed}'"


def missing_package(error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """Return an error that says how to install what an import did not find.

    Args:
        error: What the import raised.
        extra: The extra that has the package.
    """
    package = (error.name or "").partition(".")[0]
    return ModuleNotFoundError(
        f"the Python package {package!r} is not installed: {install_command(extra)}",
        name=error.name,
    )
