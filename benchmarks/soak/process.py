"""One process of a campaign: `python -m benchmarks.soak.process PLAN`, with lines of JSON on its standard output.

A process of its own, as signals, forks and a process that is stuck or dies are none of the
console's business.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import sysconfig
import warnings
from dataclasses import asdict
from typing import Any

import request_purgatory
from benchmarks.soak.campaign import Campaign
from benchmarks.soak.plan import Plan


def command(plan: Plan) -> list[str]:
    """Return the command of a process with this plan."""
    return [sys.executable, "-m", "benchmarks.soak.process", json.dumps(asdict(plan))]


def build() -> dict[str, Any]:
    """Return what the campaign runs on."""
    return {
        "build": "compiled" if request_purgatory.__compiled__ else "interpreted",
        "package": request_purgatory.__file__,
        "python": sys.version.split()[0],
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "gil_enabled": getattr(sys, "_is_gil_enabled", lambda: True)(),
    }


def main(arguments: list[str]) -> int:
    """Run the plan; 1 if an operation has not ended as it should have, or the memory grew."""
    fields = json.loads(arguments[0])
    plan = Plan(**fields | {"steps": tuple(fields["steps"])})
    faulthandler.enable()
    # From Python 3.12 on: that a process with threads forks is what is tried here.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    result = Campaign(plan).run(lambda progress: _write("progress", progress))
    _write("result", result | build())
    return 1 if result["problem"] else 0


def _write(kind: str, fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"kind": kind} | fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
