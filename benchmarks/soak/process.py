"""One process of a campaign: `python -m benchmarks.soak.process PLAN`.

Progress and result are lines of JSON on standard output. Each campaign has its own process because
of signals and forks, and because it may hang or crash.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
import sysconfig
import warnings
from dataclasses import asdict
from typing import Any

import request_purgatory
from benchmarks.soak.campaign import Campaign
from benchmarks.soak.plan import Plan


def command(plan: Plan) -> list[str]:
    """Return the command that starts a process with this plan."""
    return [sys.executable, "-m", "benchmarks.soak.process", json.dumps(asdict(plan))]


def build() -> dict[str, Any]:
    """Return the build of the package and the interpreter."""
    return {
        "build": "compiled" if request_purgatory.__compiled__ else "interpreted",
        "package": request_purgatory.__file__,
        "python": sys.version.split()[0],
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "gil_enabled": getattr(sys, "_is_gil_enabled", lambda: True)(),
    }


def main(arguments: list[str]) -> int:
    """Run the plan, and return the exit code: 1 if a problem was found, else 0."""
    fields = json.loads(arguments[0])
    plan = Plan(**fields | {"steps": tuple(fields["steps"])})
    faulthandler.enable()
    # Python 3.12 and later warn when a process with threads forks, which is tested here.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    campaign = Campaign(plan)
    signal.signal(signal.SIGTERM, lambda *_: campaign.stop())
    result = campaign.run(lambda progress: _write("progress", progress))
    _write("result", result | build())
    return 1 if result["problem"] else 0


def _write(kind: str, fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"kind": kind} | fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
