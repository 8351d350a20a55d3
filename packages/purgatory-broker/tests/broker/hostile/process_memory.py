"""The memory of a cluster's process."""

from __future__ import annotations

import re
from pathlib import Path

from purgatory_broker import ClusterProcess


def peak_resident_kb(process: ClusterProcess) -> int:
    """Return the peak of the process's resident memory; 0 where the system does not report it."""
    assert process._process is not None
    status = Path(f"/proc/{process._process.pid}/status")
    if not status.exists():
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
    assert found is not None
    return int(found[1])
