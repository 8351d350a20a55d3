"""The command `purgatory-broker`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from purgatory_broker.cli.app import make_app
from request_purgatory.command_line.run import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The command line without the program's name; this process' unless given.

    Returns:
        The exit code, one of `ExitCode`.
    """
    return run(make_app(), arguments)


if __name__ == "__main__":
    sys.exit(main())
