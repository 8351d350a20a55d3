"""What `purgatory --version` prints, which needs no extra."""

from __future__ import annotations

import platform

from request_purgatory import __compiled__, __version__


def is_needlessly_slow() -> bool:
    """Return True if the core is interpreted on CPython, which could run a compiled one."""
    return not __compiled__ and platform.python_implementation() == "CPython"


def version_text() -> str:
    """Return the package's version and the build of its core, with what to do if it is slow."""
    text = f"request-purgatory {__version__}, core {'compiled' if __compiled__ else 'interpreted'}"
    if not is_needlessly_slow():
        return text
    return (
        f"{text}, several times slower than compiled: install a C compiler, and then this package "
        "again with --force-reinstall"
    )
