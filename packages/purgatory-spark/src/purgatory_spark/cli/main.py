"""The command `purgatory`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from request_purgatory.cli.exit_codes import ExitCode
from request_purgatory.cli.version import is_needlessly_slow, version_text
from request_purgatory.extras import install_command

#: What the command needs itself; both extras have them.
_NEEDED = ("cyclopts", "rich", "docstring_parser", "attrs", "attr")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The command line without the program's name; this process' unless given.

    Returns:
        The exit code, one of `ExitCode`.

    Raises:
        ModuleNotFoundError: A module of this package is missing.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given and is_needlessly_slow():
        print(version_text(), file=sys.stderr)
    elif given == ["--version"]:  # Also where the command itself needs an extra.
        print(version_text())
        return ExitCode.OK
    try:
        from request_purgatory.cli.run import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        print(
            f"purgatory: the command needs an extra: {install_command('spark')}, or [broker] "
            "instead for the broker alone",
            file=sys.stderr,
        )
        return ExitCode.MISSING_DEPENDENCY
    return run(given)


if __name__ == "__main__":
    sys.exit(main())
