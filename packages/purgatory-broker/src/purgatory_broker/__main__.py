"""`python -m purgatory_broker`: the command `purgatory-broker`."""

from __future__ import annotations

import sys

from purgatory_broker_command import main

if __name__ == "__main__":
    sys.exit(main())
