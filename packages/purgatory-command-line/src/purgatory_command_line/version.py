"""What `--version` prints."""

from __future__ import annotations

import platform

from request_purgatory import __compiled__, __version__


def version_text(package: str) -> str:
    """Return a package's version and the build of the core, with what to do if it is slow.

    All packages have the core's version.
    """
    text = f"{package} {__version__}, core {'compiled' if __compiled__ else 'interpreted'}"
    if __compiled__ or platform.python_implementation() != "CPython":
        return text
    return (
        f"{text}, several times slower than compiled: install a C compiler, and then "
        "request-purgatory again with --force-reinstall"
    )
