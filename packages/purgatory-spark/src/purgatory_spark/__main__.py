"""`python -m request_purgatory`: the command `purgatory`."""

from __future__ import annotations

import sys

from request_purgatory.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
