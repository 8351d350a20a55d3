"""What the applications are told by the command, and tell it."""

from __future__ import annotations

import os
from pathlib import Path

#: For this long a request waits.
WAIT_S = 20.0
#: Whether a request waits in a purgatory that closes at the signal.
LIBRARY = os.environ.get("STOPPING_LIBRARY") == "1"


def tell(what: str) -> None:
    """Say that this process has come so far, by an empty file."""
    (Path(os.environ["STOPPING_FOLDER"]) / f"{what}-{os.getpid()}").touch()
