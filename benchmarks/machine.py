"""The machine and the versions that were measured."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import request_purgatory
from benchmarks import peers, reference

_CPUINFO = Path("/proc/cpuinfo")


def describe(jvm_versions: Mapping[str, str]) -> dict[str, object]:
    """Return the machine, the interpreter and the peers, as written to machine.json."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "python_build": [*platform.python_build(), platform.python_compiler()],
        "python_reference_ns": reference.measure_ns(),
        "python_debug": bool(sysconfig.get_config_var("Py_DEBUG")),
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "gil_enabled": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "garbage_collector": "on while measuring; gc.collect() just before",
        "request_purgatory_compiled": getattr(request_purgatory, "__compiled__", False),
        "versions": peers.versions() | dict(jvm_versions),
    }


def _cpu_model() -> str:
    if _CPUINFO.exists():
        for line in _CPUINFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
