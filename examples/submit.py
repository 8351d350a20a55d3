"""`purgatory` for spark-submit, which takes a file of Python: spark-submit ... submit.py stream requests events --out ...

spark-submit's own options say where it runs (docs/pipeline.md, "On a cluster").
"""

from __future__ import annotations

import sys

from request_purgatory.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
