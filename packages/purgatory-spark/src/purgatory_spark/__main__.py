"""`python -m purgatory_spark`: the command `purgatory`."""

from __future__ import annotations

import sys

from purgatory_command import main

if __name__ == "__main__":
    sys.exit(main())
