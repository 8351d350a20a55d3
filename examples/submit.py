"""Run the command `purgatory` with spark-submit, which needs a Python file.

    spark-submit ... submit.py stream requests events --out ...

For the options of spark-submit, see docs/how_to/run_on_a_cluster.md.
"""

from __future__ import annotations

import sys

from purgatory_command import main

if __name__ == "__main__":
    sys.exit(main())
